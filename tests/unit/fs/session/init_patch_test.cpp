#include "fs/session/init_patch.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tierfs {
namespace init_patch_test {

std::vector<std::byte> init_request(std::uint32_t opcode, std::uint32_t flags, std::uint32_t flags2,
                                    std::size_t words = 16) {
    fuse_in_header header{};
    header.opcode = opcode;
    header.unique = 2;
    std::vector<std::uint32_t> body(words);
    if (words > 0) body[0] = 7;
    if (words > 3) body[3] = flags;
    if (words > 4) body[4] = flags2;
    std::vector<std::byte> bytes(sizeof(header) + words * sizeof(std::uint32_t));
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), body.data(), words * sizeof(std::uint32_t));
    return bytes;
}

fuse_init_out patched(std::uint32_t flags, const InitOffer& offer, std::uint32_t depth = 0) {
    fuse_init_out reply{};
    reply.flags = flags;
    reply.max_write = 1 << 20;
    std::array<std::byte, sizeof(reply)> bytes{};
    std::memcpy(bytes.data(), &reply, sizeof(reply));
    EXPECT_TRUE(patch_init_reply(bytes, offer, depth));
    std::memcpy(&reply, bytes.data(), sizeof(reply));
    return reply;
}

TEST(InitPatch, ReadsWhatTheKernelOffers) {
    const auto offer = read_init_offer(init_request(FUSE_INIT, kInitExt | kInitParallelDirops, 0x5fd));
    ASSERT_TRUE(offer);
    EXPECT_EQ(offer->unique, 2U);
    EXPECT_EQ(offer->flags, kInitExt | kInitParallelDirops);
    EXPECT_EQ(offer->flags2, 0x5fdU);
}

TEST(InitPatch, IgnoresTheSecondWordOfAKernelThatHasNone) {
    const auto offer = read_init_offer(init_request(FUSE_INIT, kInitParallelDirops, 0x5fd));
    ASSERT_TRUE(offer);
    EXPECT_EQ(offer->flags2, 0U);
}

TEST(InitPatch, TakesTheShortRequestOfAnOldKernel) {
    const auto offer = read_init_offer(init_request(FUSE_INIT, kInitParallelDirops, 0, 4));
    ASSERT_TRUE(offer);
    EXPECT_EQ(offer->flags, kInitParallelDirops);
}

TEST(InitPatch, RefusesOtherAndShortRequests) {
    EXPECT_FALSE(read_init_offer(init_request(FUSE_LOOKUP, 0, 0)));
    EXPECT_FALSE(read_init_offer(init_request(FUSE_INIT, 0, 0, 3)));
    EXPECT_FALSE(read_init_offer({}));
}

TEST(InitPatch, AddsOnlyWhatWasOffered) {
    const auto with = patched(1, {2, kInitExt | kInitParallelDirops, kInit2HasResend | 0x20});
    EXPECT_EQ(with.flags, 1U | kInitExt | kInitParallelDirops);
    EXPECT_EQ(with.flags2, kInit2HasResend);
    EXPECT_EQ(with.max_write, 1U << 20);

    const auto without = patched(1, {2, 0, 0xffffffff});
    EXPECT_EQ(without.flags, 1U);
    EXPECT_EQ(without.flags2, 0U);
}

TEST(InitPatch, AsksForPassthroughWhereItIsWantedAndOffered) {
    const InitOffer offer{2, kInitExt, kInit2Passthrough};
    EXPECT_EQ(patched(0, offer, 2).flags2, kInit2Passthrough);
    EXPECT_EQ(patched(0, offer, 2).unused[0], 2U) << "max_stack_depth";
    EXPECT_EQ(patched(0, offer, 0).flags2, 0U);
    EXPECT_EQ(patched(0, {2, kInitExt, 0}, 1).flags2, 0U);
    EXPECT_EQ(patched(0, {2, kInitExt, 0}, 1).unused[0], 0U);
    EXPECT_FALSE(offers_passthrough({2, 0, kInit2Passthrough})) << "an old kernel, which has no second word";
}

TEST(InitPatch, LeavesARepliesOfAnotherSizeAlone) {
    std::array<std::byte, 24> old{};
    EXPECT_FALSE(patch_init_reply(old, {2, kInitParallelDirops, 0}, 0));
    EXPECT_EQ(old, (std::array<std::byte, 24>{}));
}

}  // namespace init_patch_test
}  // namespace tierfs
