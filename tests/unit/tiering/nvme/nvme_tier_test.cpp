// The NVMe tier as its users see it: what was admitted comes back, and only that.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs::testing {
namespace nvme_tier_test {

class NvmeTierTest : public NvmeTest {};

constexpr std::uint64_t kMiB = 1 << 20;

TEST_F(NvmeTierTest, RoundTripOfManySizes) {
    open();
    const std::vector<std::uint64_t> sizes{
        1,     2,     100,   4095,   4096,        4097,     8191, 32767,    32768,          32769,
        65535, 65536, 65537, 300000, kMiB - 4096, kMiB - 1, kMiB, kMiB + 1, 2 * kMiB + 4097};
    for (std::size_t at = 0; at < sizes.size(); ++at) put(at, sizes[at]);
    tier_->flush();
    for (std::size_t at = 0; at < sizes.size(); ++at) {
        EXPECT_EQ(get(at, sizes[at]), Got::right) << sizes[at];
        for (std::uint64_t block = 0; block < block_count(sizes[at]); ++block) {
            EXPECT_TRUE(tier_->contains(object_id(at), sizes[at], block)) << sizes[at];
            const std::uint64_t offset = block * kBlockSize;
            const std::uint64_t length = std::min<std::uint64_t>(kBlockSize, sizes[at] - offset);
            EXPECT_EQ(get(at, sizes[at], offset, length), Got::right) << sizes[at] << " block " << block;
        }
    }
    EXPECT_EQ(tier_->checksum_errors(), 0U);
    EXPECT_GT(tier_->stats().hits, 0U);
}

TEST_F(NvmeTierTest, WhatWasNotAdmittedIsAMiss) {
    open();
    put(1, 5000);
    tier_->flush();
    EXPECT_EQ(get(2, 5000), Got::miss);
    EXPECT_EQ(get(1, 5001), Got::miss);
    EXPECT_FALSE(tier_->contains(object_id(2), 5000, 0));
    EXPECT_FALSE(tier_->contains(object_id(1), 5000, 1));
    AlignedBuffer out(kBlockSize);
    EXPECT_FALSE(tier_->read(object_id(1), 5000, 0, {}));
    EXPECT_FALSE(tier_->read(object_id(1), 5000, 0, out.span().first(100)));  // part of a checksum's unit
    EXPECT_FALSE(tier_->read(object_id(1), 5000, kBlockSize, out.span().first(100)));
    EXPECT_FALSE(tier_->read(object_id(1), 5000, 1, out.span().first(100)));
    EXPECT_GT(tier_->stats().misses, 0U);
    EXPECT_EQ(get(1, 5000), Got::right);
}

TEST_F(NvmeTierTest, MalformedPiecesAreRefused) {
    open();
    const ContentId id = object_id(1);
    tier_->admit(id, 100, 0, make_piece(id, 0, 50));                 // not whole
    tier_->admit(id, 0, 0, std::vector<BufferPtr>{});                // empty
    tier_->admit(id, 100, 0, BufferPtr());                           // nothing
    tier_->admit(id, 2 * kMiB, 100, make_piece(id, 100, 100));       // not aligned
    tier_->admit(id, 2 * kMiB, 0, make_piece(id, 0, 100));           // ends inside a block
    tier_->admit(id, 2 * kMiB, 2 * kMiB, make_piece(id, 0, 65536));  // behind the end
    tier_->flush();
    EXPECT_EQ(index_.size(), 0U);
    EXPECT_TRUE(files_with(".data").empty());
}

TEST_F(NvmeTierTest, SparsePiecesOfALargeObjectInAnyOrder) {
    open();
    const std::uint64_t size = 5 * kMiB + 12345;
    std::vector<std::uint64_t> blocks(block_count(size));
    for (std::size_t at = 0; at < blocks.size(); ++at) blocks[at] = at;
    std::mt19937 random(7);
    std::shuffle(blocks.begin(), blocks.end(), random);
    const auto length = [&](std::uint64_t block) {
        return std::min<std::uint64_t>(kBlockSize, size - block * kBlockSize);
    };
    const std::size_t half = blocks.size() / 2;
    for (std::size_t at = 0; at < half; ++at) put_piece(1, size, blocks[at] * kBlockSize, length(blocks[at]));
    tier_->flush();
    for (std::size_t at = 0; at < blocks.size(); ++at) {
        EXPECT_EQ(tier_->contains(object_id(1), size, blocks[at]), at < half);
        EXPECT_EQ(get(1, size, blocks[at] * kBlockSize, length(blocks[at])),
                  at < half ? Got::right : Got::miss);
    }
    EXPECT_EQ(get(1, size), Got::miss);
    for (std::size_t at = half; at < blocks.size(); ++at) {
        put_piece(1, size, blocks[at] * kBlockSize, length(blocks[at]));
    }
    tier_->flush();
    EXPECT_EQ(get(1, size), Got::right);
    const auto data = files_with(".data");
    ASSERT_EQ(data.size(), 1U);
    EXPECT_EQ(std::filesystem::file_size(data[0]), size);
    const auto location = Location::decode(**index_.find_location(object_id(1)));
    ASSERT_TRUE(location.has_value());
    EXPECT_TRUE(location->complete);
}

TEST_F(NvmeTierTest, APieceOfSeveralBuffersOverWhatIsHereAlready) {
    open();
    const std::uint64_t size = 3 * kMiB;
    const ContentId id = object_id(1);
    put_piece(1, size, 2 * kBlockSize, kBlockSize);
    std::vector<BufferPtr> data;
    data.push_back(make_piece(id, 0, 100000));
    data.push_back(make_piece(id, 100000, kMiB - 100000));
    data.push_back(make_piece(id, kMiB, kMiB));
    tier_->admit(id, size, 0, std::move(data));
    tier_->flush();
    EXPECT_EQ(get(1, size, 0, 2 * kMiB), Got::right);
    EXPECT_EQ(get(1, size, 2 * kMiB, kBlockSize), Got::miss);
    EXPECT_EQ(tier_->checksum_errors(), 0U);
}

TEST_F(NvmeTierTest, UnalignedMemoryWorksToo) {
    open();
    put(1, 10000);
    tier_->flush();
    std::vector<std::byte> memory(10001);
    ASSERT_TRUE(tier_->read(object_id(1), 10000, 0, std::span(memory).subspan(1)));
    std::vector<std::byte> want(10000);
    fill_bytes(object_id(1), 0, want);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), memory.begin() + 1));
}

TEST_F(NvmeTierTest, TheSameObjectIsWrittenOnce) {
    open();
    for (int round = 0; round < 3; ++round) {
        for (int again = 0; again < 5; ++again) put(1, 100000);
        tier_->flush();
    }
    EXPECT_LT(tier_->stats().written_bytes, 150000U);
    EXPECT_EQ(get(1, 100000), Got::right);
}

TEST_F(NvmeTierTest, AChunkGoesOutByItselfAfterAWhile) {
    open();
    put(1, 1000);
    EXPECT_TRUE(eventually([&] { return get(1, 1000) == Got::right; }));
}

TEST_F(NvmeTierTest, ErasedObjectsAreGone) {
    open();
    put(1, 1000);
    put(2, 2 * kMiB);
    put(3, 1000);
    tier_->erase(object_id(1));
    tier_->erase(object_id(2));
    tier_->flush();
    EXPECT_EQ(get(1, 1000), Got::miss);
    EXPECT_EQ(get(2, 2 * kMiB), Got::miss);
    EXPECT_EQ(get(3, 1000), Got::right);
    EXPECT_TRUE(files_with(".data").empty());
    put(1, 1000);
    put(2, 2 * kMiB);
    tier_->flush();
    EXPECT_EQ(get(1, 1000), Got::right);
    EXPECT_EQ(get(2, 2 * kMiB), Got::right);
}

TEST_F(NvmeTierTest, ErasedObjectsThatWereJustReadAreGone) {
    open();
    put(1, 1000);
    put(2, 2 * kMiB);
    tier_->flush();
    ASSERT_EQ(get(1, 1000), Got::right);  // their places are remembered now
    ASSERT_EQ(get(2, 2 * kMiB), Got::right);
    tier_->erase(object_id(1));
    tier_->erase(object_id(2));
    tier_->flush();
    EXPECT_EQ(get(1, 1000), Got::miss);
    EXPECT_EQ(get(2, 2 * kMiB), Got::miss);
}

TEST_F(NvmeTierTest, ReopenedAfterACloseItHasEverything) {
    open();
    for (std::uint64_t at = 0; at < 50; ++at) put(at, 1000 + at * 1777);
    put(100, 3 * kMiB + 5);
    tier_->close();
    tier_->close();
    put(200, 1000);  // nothing happens any more
    tier_->flush();
    open();
    for (std::uint64_t at = 0; at < 50; ++at) EXPECT_EQ(get(at, 1000 + at * 1777), Got::right);
    EXPECT_EQ(get(100, 3 * kMiB + 5), Got::right);
    EXPECT_EQ(get(200, 1000), Got::miss);
}

TEST_F(NvmeTierTest, AfterAKillWhatWasFlushedIsThereAndTheRestIsAMiss) {
    open();
    for (std::uint64_t at = 0; at < 20; ++at) put(at, 5000);
    put_piece(100, 3 * kMiB, kMiB, kMiB);
    tier_->flush();
    put(50, 6000);
    kill_and_open();
    for (std::uint64_t at = 0; at < 20; ++at) EXPECT_EQ(get(at, 5000), Got::right);
    EXPECT_EQ(get(100, 3 * kMiB, kMiB, kMiB), Got::right);
    EXPECT_EQ(get(100, 3 * kMiB, 0, kMiB), Got::miss);
    EXPECT_NE(get(50, 6000), Got::wrong);
    // Writing goes on in a new extent, and in the same backing file.
    put(60, 7000);
    put_piece(100, 3 * kMiB, 0, kMiB);
    tier_->flush();
    EXPECT_EQ(files_with(".extent").size(), 2U);
    EXPECT_EQ(get(60, 7000), Got::right);
    EXPECT_EQ(get(100, 3 * kMiB, 0, 2 * kMiB), Got::right);
    for (std::uint64_t at = 0; at < 20; ++at) EXPECT_EQ(get(at, 5000), Got::right);
}

TEST_F(NvmeTierTest, ALostIndexIsRebuiltFromWhatTheFilesSay) {
    open();
    for (std::uint64_t at = 0; at < 400; ++at) put(at, 10000);
    put(1000, 2 * kMiB);
    tier_->flush();
    tier_->abandon();
    index_.lose_everything();
    open();
    EXPECT_TRUE(eventually([&] { return index_.size() == 401; }));
    for (std::uint64_t at = 0; at < 400; ++at) EXPECT_EQ(get(at, 10000), Got::right);
    EXPECT_EQ(get(1000, 2 * kMiB), Got::right);
}

TEST_F(NvmeTierTest, ChunksWrittenBeforeAKillAndNotRecordedAreTakenIn) {
    for (const bool killed : {true, false}) {
        const std::uint64_t first = killed ? 10 : 20;  // other objects each time
        open();
        for (std::uint64_t at = first; at < first + 4; ++at) {
            put(at, 5000);
            tier_->flush();
        }
        killed ? tier_->abandon() : tier_->close();
        for (const std::uint64_t at : {first, first + 2, first + 3}) index_.lose(object_id(at));
        open();
        if (killed) {
            EXPECT_TRUE(eventually([&] { return get(first + 3, 5000) == Got::right; }));
            EXPECT_EQ(get(first + 2, 5000), Got::right);
        } else {
            put(99, 5000);
            EXPECT_TRUE(eventually([&] { return get(99, 5000) == Got::right; }));  // adopts before it writes
            EXPECT_EQ(get(first + 3, 5000), Got::miss) << "erased from an extent that was finished";
        }
        EXPECT_EQ(get(first, 5000), Got::miss) << "erased, not forgotten: it stands before one on record";
        EXPECT_EQ(get(first + 1, 5000), Got::right);
        tier_->close();
    }
}

TEST_F(NvmeTierTest, AFolderHasOneTierAtATime) {
    open();
    FakeIndex other;
    EXPECT_FALSE(open_nvme_tier(options_, other, {}).has_value());
}

TEST_F(NvmeTierTest, AWarmReadAsksTheIndexOnce) {
    open();
    put(1, 16384);
    tier_->flush();
    ASSERT_EQ(get(1, 16384), Got::right);
    const auto before = index_.lookups();
    for (int round = 0; round < 10; ++round) EXPECT_EQ(get(1, 16384), Got::right);
    EXPECT_EQ(index_.lookups(), before);
}

}  // namespace nvme_tier_test
}  // namespace tierfs::testing
