// Codecs: what was compressed comes back, and nothing else is taken for it.
#include "backends/extent/codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "backends/extent/format.hpp"

namespace tierfs {
namespace codec_test {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    Bytes bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

Bytes text(std::size_t size) {
    Bytes bytes;
    bytes.reserve(size + 64);
    for (unsigned line = 0; bytes.size() < size; ++line) {
        for (const char c :
             "sample " + std::to_string(line * 7919 % 10007) + ", label " + std::to_string(line % 17) + "\n")
            bytes.push_back(static_cast<std::byte>(c));
    }
    bytes.resize(size);
    return bytes;
}

std::optional<Bytes> packed(Codec codec, const Bytes& bytes) {
    static Compressor compressor;
    Bytes out(bytes.size() + bytes.size() / 64 + 1024);
    const auto length = compressor.compress(codec, bytes, out);
    if (!length) return std::nullopt;
    out.resize(*length);
    return out;
}

class CodecTest : public ::testing::TestWithParam<Codec> {};
INSTANTIATE_TEST_SUITE_P(Each, CodecTest, ::testing::Values(Codec::lz4, Codec::zstd),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(CodecTest, WhatGoesInComesOut) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{4096}, std::size_t{70001},
                                   std::size_t{kMaxPackedObject}}) {
        for (const Bytes& bytes : {text(size), random_bytes(size, 1), Bytes(size)}) {
            const auto stored = packed(GetParam(), bytes);
            ASSERT_TRUE(stored) << size;
            if (stored->size() > kMaxPackedObject) continue;  // noise of that size: nobody keeps it
            Bytes back(size, std::byte{0x5A});
            ASSERT_TRUE(decompress(GetParam(), *stored, back)) << size;
            EXPECT_EQ(back, bytes) << size;
        }
    }
    EXPECT_LT(packed(GetParam(), text(100000))->size(), 50000U);
}

TEST_P(CodecTest, WhatDoesNotFitIsNothing) {
    Compressor compressor;
    const Bytes noise = random_bytes(65536, 2);
    Bytes out(65536 * 88 / 100);
    EXPECT_FALSE(compressor.compress(GetParam(), noise, out));
    EXPECT_FALSE(compressor.compress(GetParam(), noise, {}));
    EXPECT_FALSE(compressor.compress(GetParam(), {}, out)) << "no object is empty";
    EXPECT_FALSE(compressor.compress(GetParam(), Bytes(kMaxPackedObject + 1), out));
    EXPECT_TRUE(compressor.compress(GetParam(), text(65536), out)) << "and it can be used again";
    EXPECT_FALSE(compressor.compress(Codec::none, text(100), out));
}

TEST_P(CodecTest, AnotherLengthIsNoObject) {
    const Bytes bytes = text(50000);
    const auto stored = packed(GetParam(), bytes);
    for (const std::size_t size : {0, 1, 49999, 50001, 100000}) {
        Bytes out(size);
        EXPECT_FALSE(decompress(GetParam(), *stored, out)) << size;
    }
    EXPECT_FALSE(decompress(GetParam(), {}, {}));
    Bytes large(kMaxPackedObject + 1);
    EXPECT_FALSE(decompress(GetParam(), *stored, large));
    Bytes out(100);
    EXPECT_FALSE(decompress(GetParam(), large, out));
}

TEST_P(CodecTest, CutShortItIsNoObject) {
    const Bytes bytes = text(3000);
    const auto stored = packed(GetParam(), bytes);
    for (std::size_t length = 0; length < stored->size(); ++length) {
        const Bytes cut(stored->begin(),
                        stored->begin() + static_cast<std::ptrdiff_t>(length));  // exact: asan
        Bytes out(bytes.size());
        EXPECT_FALSE(decompress(GetParam(), cut, out)) << length;
    }
}

TEST_P(CodecTest, FlippedBitsNeverWriteOutside) {
    const Bytes bytes = text(2000);
    const auto stored = packed(GetParam(), bytes);
    for (std::size_t bit = 0; bit < stored->size() * 8; ++bit) {
        Bytes damaged = *stored;
        damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        Bytes out(bytes.size());
        (void)decompress(GetParam(), damaged, out);  // may come out wrong: checksums are for that
    }
    Bytes out(bytes.size());
    ASSERT_TRUE(decompress(GetParam(), *stored, out)) << "garbage leaves nothing behind";
    EXPECT_EQ(out, bytes);
}

TEST(CodecRule, KeepsWhatSavesTwelvePercentOfTheDevice) {
    EXPECT_EQ(longest_kept(0), 0U);
    EXPECT_EQ(longest_kept(1), 0U);
    EXPECT_EQ(longest_kept(1000), 880U);
    EXPECT_EQ(longest_kept(4095), 3603U);
    EXPECT_EQ(longest_kept(4096), 3604U) << "shares a page then";
    EXPECT_EQ(longest_kept(4097), 4096U) << "one page, not two";
    EXPECT_EQ(longest_kept(8192), 4096U);
    EXPECT_EQ(longest_kept(32768), 28672U);
    EXPECT_EQ(longest_kept(36864), 28672U) << "eight pages of nine would save 11 %";
    for (std::uint64_t size = 1; size < 300000; ++size) {
        const auto kept = longest_kept(size);
        ASSERT_LT(kept, size);
        if (kept == 0) continue;
        ASSERT_LE(extent_bytes(kept) * 100, extent_bytes(size) * 88) << size;
        ASSERT_GT(extent_bytes(kept + 1) * 100, extent_bytes(size) * 88) << size;
    }
}

TEST(CodecNames, HaveNumbersAndNames) {
    for (const Codec codec : kCodecs) {
        EXPECT_EQ(parse_codec(name_of(codec)), codec);
        EXPECT_EQ(codec_of(static_cast<std::uint8_t>(codec)), codec);
    }
    EXPECT_FALSE(parse_codec("gzip"));
    EXPECT_FALSE(parse_codec(""));
    EXPECT_FALSE(codec_of(3));
    EXPECT_FALSE(codec_of(255));
    EXPECT_EQ(static_cast<int>(Codec::lz4), 1) << "they stand on disk";
    EXPECT_EQ(static_cast<int>(Codec::zstd), 2);
}

}  // namespace codec_test
}  // namespace tierfs
