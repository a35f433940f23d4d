#include <gtest/gtest.h>

#include "backends/origin/writable_origin.hpp"
#include "config/base/hex.hpp"

namespace tierfs {
namespace upload_checksum_test {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kGiB = kMiB << 10, kTiB = kGiB << 10;
constexpr UploadLimits kS3{5 * kMiB, 5 * kGiB, 5 * kTiB, 10000};

TEST(UploadChecksum, PartsFitEveryObject) {
    EXPECT_EQ(*part_size_for(1, 16 * kMiB, kS3), 16 * kMiB);
    EXPECT_EQ(*part_size_for(160000 * kMiB, 16 * kMiB, kS3), 16 * kMiB);
    EXPECT_EQ(*part_size_for(160000 * kMiB + 1, 16 * kMiB, kS3), 32 * kMiB);
    const auto largest = part_size_for(5 * kTiB, 16 * kMiB, kS3);
    ASSERT_TRUE(largest);
    EXPECT_EQ(*largest % (16 * kMiB), 0U);
    EXPECT_LE((5 * kTiB + *largest - 1) / *largest, 10000U);
    EXPECT_LE(*largest, 5 * kGiB);
    EXPECT_EQ(*part_size_for(kMiB, kMiB, kS3), 5 * kMiB);
    EXPECT_EQ(part_size_for(5 * kTiB + 1, 16 * kMiB, kS3).error().code, EFBIG);
    EXPECT_EQ(part_size_for(kTiB, kMiB, {1, 10 * kMiB, 5 * kTiB, 10}).error().code, EFBIG);
}

TEST(UploadChecksum, IsWhatS3Computes) {
    const std::string a = "a", b = "b";
    const auto of = [](const std::string& text) { return *md5_hex(std::as_bytes(std::span(text))); };
    EXPECT_EQ(of(a), "0cc175b9c0f1b6a831c399e269772661");
    EXPECT_EQ(of(""), "d41d8cd98f00b204e9800998ecf8427e");
    const std::vector<UploadPart> parts{{1, 1, of(a)}, {2, 1, of(b)}};
    EXPECT_EQ(*checksum_of_parts(parts), "96e024ba2074fe77e8e965ba43a704be-2");
}

TEST(UploadChecksum, TellsChecksumsFromOtherTexts) {
    EXPECT_TRUE(is_checksum("0cc175b9c0f1b6a831c399e269772661"));
    EXPECT_TRUE(is_checksum("0cc175b9c0f1b6a831c399e269772661-12"));
    for (const auto* text :
         {"", "0cc1", "0cc175b9c0f1b6a831c399e269772661-", "0cc175b9c0f1b6a831c399e269772661-x",
          "0cc175b9c0f1b6a831c399e2697726611", "66f0a1b2-1a", "0CC175B9C0F1B6A831C399E269772661"})
        EXPECT_FALSE(is_checksum(text)) << text;
    EXPECT_TRUE(from_hex("0g").empty());
    EXPECT_TRUE(from_hex("abc").empty());
    EXPECT_EQ(from_hex("00ff").size(), 2U);
}

}  // namespace upload_checksum_test
}  // namespace tierfs
