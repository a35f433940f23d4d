#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <cstring>
#include <set>
#include <stdexcept>

#include "bench/iobench/data/payload.hpp"
#include "bench/iobench/data/random.hpp"

namespace tierfs::iobench {
namespace generators_test {

std::uint64_t little_endian(const Bytes& bytes, std::size_t at, unsigned count) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < count; ++i) value |= std::to_integer<std::uint64_t>(bytes.at(at + i)) << (8 * i);
    return value;
}

struct Decoded {
    unsigned width = 0, height = 0, rows = 0;
    long warnings = 0;
};

/// Decodes with libjpeg; its own error exit would end the process, hence the exception (libjpeg's tests of
/// this path are C++ only here, and nothing is lost when it is thrown).
Decoded decode(const Bytes& bytes) {
    jpeg_decompress_struct info{};
    jpeg_error_mgr errors{};
    info.err = jpeg_std_error(&errors);
    errors.error_exit = [](j_common_ptr) { throw std::runtime_error("not a JPEG"); };
    jpeg_create_decompress(&info);
    const void* data = bytes.data();
    jpeg_mem_src(&info, static_cast<const unsigned char*>(data), bytes.size());
    jpeg_read_header(&info, TRUE);
    jpeg_start_decompress(&info);
    Decoded decoded{info.output_width, info.output_height, 0, 0};
    std::vector<JSAMPLE> row(std::size_t{3} * info.output_width);
    JSAMPROW rows = row.data();
    while (info.output_scanline < info.output_height) decoded.rows += jpeg_read_scanlines(&info, &rows, 1);
    jpeg_finish_decompress(&info);
    decoded.warnings = errors.num_warnings;
    jpeg_destroy_decompress(&info);
    return decoded;
}

/// Bytes of the comment segments behind APP0, which are padding.
std::size_t comment_bytes(const Bytes& bytes) {
    std::size_t at = 20;
    while (bytes.at(at) == std::byte{0xff} && bytes.at(at + 1) == std::byte{0xfe})
        at += 2 + std::to_integer<std::size_t>(bytes.at(at + 2)) * 256 +
              std::to_integer<std::size_t>(bytes.at(at + 3));
    return at - 20;
}

TEST(Payload, IsAFunctionOfSeedAndSize) {
    for (const Kind kind : {Kind::jpeg, Kind::npz, Kind::random}) {
        const auto first = make_payload(kind, 7, 16384), again = make_payload(kind, 7, 16384);
        const auto other = make_payload(kind, 8, 16384);
        ASSERT_TRUE(first && again && other);
        EXPECT_EQ(*first, *again);
        EXPECT_NE(*first, *other);
    }
}

TEST(Payload, HasTheSizeToTheByte) {
    for (const Kind kind : {Kind::jpeg, Kind::npz, Kind::random})
        for (const std::uint64_t size : {1024U, 1025U, 1026U, 1027U, 4096U, 16384U, 112640U, 300001U}) {
            const auto bytes = make_payload(kind, size, size);
            ASSERT_TRUE(bytes) << bytes.error().message;
            EXPECT_EQ(bytes->size(), size);
        }
}

TEST(Payload, RefusesImpossibleSizes) {
    for (const auto& [kind, size] : {std::pair{Kind::jpeg, 100ULL}, std::pair{Kind::jpeg, 1ULL << 40},
                                     std::pair{Kind::npz, 100ULL}, std::pair{Kind::npz, 1ULL << 40}}) {
        const auto bytes = make_payload(kind, 1, size);
        ASSERT_FALSE(bytes);
        EXPECT_EQ(bytes.error().code, EINVAL);
        EXPECT_NE(bytes.error().message.find(std::to_string(size)), std::string::npos);
    }
}

TEST(Jpeg, DecodesWithoutWarningAndIsMostlyPicture) {
    for (const std::uint64_t size : {1024U, 2000U, 16384U, 112640U, 400000U})
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
            const auto bytes = make_jpeg(seed, size);
            ASSERT_TRUE(bytes) << bytes.error().message;
            EXPECT_EQ(std::to_integer<int>(bytes->at(0)), 0xff);
            EXPECT_EQ(std::to_integer<int>(bytes->at(1)), 0xd8);
            EXPECT_EQ(std::to_integer<int>(bytes->at(size - 2)), 0xff);
            EXPECT_EQ(std::to_integer<int>(bytes->at(size - 1)), 0xd9);
            const Decoded decoded = decode(*bytes);
            EXPECT_EQ(decoded.rows, decoded.height);
            EXPECT_EQ(decoded.warnings, 0);
            if (size >= 16384) {
                EXPECT_LT(comment_bytes(*bytes), size / 8) << size;
            }
        }
}

TEST(Npz, IsAStoredZipWithOneArray) {
    const std::uint64_t size = 50000;
    const auto bytes = make_npz(3, size);
    ASSERT_TRUE(bytes);
    const std::size_t end = size - 22;
    ASSERT_EQ(little_endian(*bytes, end, 4), 0x06054b50U);
    EXPECT_EQ(little_endian(*bytes, end + 10, 2), 1U);  // entries
    const std::size_t central_size = little_endian(*bytes, end + 12, 4),
                      central = little_endian(*bytes, end + 16, 4);
    EXPECT_EQ(central + central_size, end);
    ASSERT_EQ(little_endian(*bytes, central, 4), 0x02014b50U);
    EXPECT_EQ(little_endian(*bytes, central + 10, 2), 0U);  // stored
    EXPECT_EQ(std::memcmp(&bytes->at(central + 46), "x.npy", 5), 0);
    const std::size_t local = little_endian(*bytes, central + 42, 4),
                      length = little_endian(*bytes, central + 24, 4);
    ASSERT_EQ(little_endian(*bytes, local, 4), 0x04034b50U);
    EXPECT_EQ(little_endian(*bytes, local + 14, 4), little_endian(*bytes, central + 16, 4));
    const std::size_t data = local + 30 + 5;
    EXPECT_EQ(data + length, central);
    const void* member = &bytes->at(data);
    EXPECT_EQ(crc32_z(0, static_cast<const Bytef*>(member), length), little_endian(*bytes, central + 16, 4));
    EXPECT_EQ(std::memcmp(member, "\x93NUMPY\x01\x00", 8), 0);
    EXPECT_EQ((10 + little_endian(*bytes, data + 8, 2)) % 64, 0U);
    const std::string header(static_cast<const char*>(member), 128);
    EXPECT_NE(header.find("'shape': (" + std::to_string(length - 128) + ",)"), std::string::npos);
    EXPECT_EQ(header.back(), '\n');
}

TEST(RandomBytes, AnyPartEqualsThatPartOfTheWhole) {
    Bytes whole(4099);
    random_bytes(5, 0, whole);
    Bytes part(1003);
    random_bytes(5, 2048, part);
    EXPECT_EQ(std::memcmp(whole.data() + 2048, part.data(), part.size()), 0);
}

TEST(Random, ShuffleIsAPermutationThatBelongsToItsSeed) {
    std::vector<int> first(1000), again, other;
    std::iota(first.begin(), first.end(), 0);
    const auto sorted = first;
    again = other = first;
    shuffle(first, 1);
    shuffle(again, 1);
    shuffle(other, 2);
    EXPECT_EQ(first, again);
    EXPECT_NE(first, other);
    EXPECT_NE(first, sorted);
    EXPECT_EQ(std::set<int>(first.begin(), first.end()).size(), sorted.size());
}

}  // namespace generators_test
}  // namespace tierfs::iobench
