#include "config/base/units.hpp"

#include <gtest/gtest.h>

#include "config/settings.hpp"

namespace tierfs {
namespace units_test {

TEST(Units, Shares) {
    EXPECT_EQ(parse_share("0/1").value().count, 1U);
    EXPECT_EQ(parse_share("7/8").value().index, 7U);
    for (const char* wrong :
         {"", "1", "1/", "/2", "2/2", "0/0", "-1/2", "1/2x", " 1/2", "1/99999999999999999999"})
        EXPECT_FALSE(parse_share(wrong)) << wrong;
}

TEST(ConfigUnits, SizesAreReadInPowersOf1024) {
    EXPECT_EQ(parse_size("0").value(), 0U);
    EXPECT_EQ(parse_size("4096").value(), 4096U);
    EXPECT_EQ(parse_size("12B").value(), 12U);
    EXPECT_EQ(parse_size("64M").value(), 64U << 20);
    EXPECT_EQ(parse_size("1.5GiB").value(), 3ULL << 29);
    EXPECT_EQ(parse_size("2T").value(), 2ULL << 40);
    EXPECT_EQ(parse_size("9223372036854775807").value(), 9223372036854775807ULL);
    EXPECT_EQ(parse_size("500 GiB").value(), 500ULL << 30);
    for (const char* same : {"64k", "64 K", "64Ki", "64KiB", "64kiB"})
        EXPECT_EQ(parse_size(same).value(), 65536U);
}

TEST(ConfigUnits, HostileSizesAreRefused) {
    for (const char* text :
         {"",     " ",   "-1",   "+1",    "NaN",        "inf",       "1e9",  "0x10", "64MB",
          "64kB", "64e", "64b",  "64Mii", "64MiBx",     "64 ",       " 64M", "64M ", ".5G",
          "1.G",  "1.5", "1.5B", "1..5G", "1.1234567G", "0.000001K", "M"}) {
        const auto size = parse_size(text);
        ASSERT_FALSE(size) << text;
        EXPECT_EQ(size.error().code, EINVAL) << text;
        EXPECT_NE(size.error().message.find("allowed"), std::string::npos);
    }
    for (const char* text :
         {"9223372036854775808", "99999999999999999999999", "8388608T", "18446744073709551616K"}) {
        const auto size = parse_size(text);
        ASSERT_FALSE(size) << text;
        EXPECT_EQ(size.error().code, ERANGE) << text;
    }
    EXPECT_NE(parse_size("64MB").error().message.find("write 64M for powers of 1024"), std::string::npos);
    EXPECT_NE(parse_size("1.5 kB").error().message.find("write 1.5K "), std::string::npos);
}

TEST(ConfigUnits, DurationsNeedAUnit) {
    using std::chrono::milliseconds;
    EXPECT_EQ(parse_duration("0").value(), milliseconds(0));
    EXPECT_EQ(parse_duration("250ms").value(), milliseconds(250));
    EXPECT_EQ(parse_duration("10s").value(), milliseconds(10000));
    EXPECT_EQ(parse_duration("1.5m").value(), milliseconds(90000));
    EXPECT_EQ(parse_duration("2h").value(), milliseconds(7200000));
    EXPECT_EQ(parse_duration("1d").value(), milliseconds(86400000));
    EXPECT_EQ(parse_duration("forever").value(), kForever);
    for (const char* same : {"600s", "10min", "10 min", "10 minutes", "600sec", "600 seconds"})
        EXPECT_EQ(parse_duration(same).value(), milliseconds(600000)) << same;
    for (const char* same : {"48h", "48hr", "48 hours", "2days"})
        EXPECT_EQ(parse_duration(same).value(), milliseconds(172800000)) << same;
    EXPECT_NE(parse_duration("10").error().message.find("write 10s, 10m or 10h"), std::string::npos);
    for (const char* text :
         {"", "5", "5 ", "-1s", "NaN", "1.5ms", "0.0001s", "1S", "1s ", "1 secs", "Forever", "infs"}) {
        ASSERT_FALSE(parse_duration(text)) << text;
        EXPECT_EQ(parse_duration(text).error().code, EINVAL) << text;
    }
    for (const char* text : {"9223372036854775807ms", "9223372036854775808ms", "106751991168d"}) {
        ASSERT_FALSE(parse_duration(text)) << text;
        EXPECT_EQ(parse_duration(text).error().code, ERANGE) << text;
    }
}

TEST(ConfigUnits, WhatIsWrittenExactlyIsReadBack) {
    for (const std::uint64_t bytes :
         {0ULL, 1ULL, 1023ULL, 1024ULL, 1536ULL, 67108864ULL, 3ULL << 29, 1ULL << 50, (1ULL << 63) - 1}) {
        EXPECT_EQ(parse_size(format_size_exact(bytes)).value(), bytes);
    }
    for (const std::int64_t count :
         {0LL, 1LL, 250LL, 1000LL, 60000LL, 90000LL, 3600000LL, 86400000LL, 172800000LL, 172800001LL}) {
        const std::chrono::milliseconds duration(count);
        EXPECT_EQ(parse_duration(format_duration(duration)).value(), duration) << format_duration(duration);
    }
    EXPECT_EQ(format_size_exact(64 << 20), "64M");
    EXPECT_EQ(format_size_exact(1234), "1234");
    EXPECT_EQ(format_duration(std::chrono::milliseconds(60000)), "60s");
    EXPECT_EQ(format_duration(std::chrono::milliseconds(250)), "250ms");
    EXPECT_EQ(format_duration(kForever), "forever");
}

TEST(ConfigUnits, SizesForPeople) {
    EXPECT_EQ(format_size(512), "512 B");
    EXPECT_EQ(format_size(3ULL << 29), "1.5 GiB");
    EXPECT_EQ(format_size(1 << 20), "1 MiB");
    EXPECT_EQ(format_size(~0ULL), "16 EiB");
}

}  // namespace units_test
}  // namespace tierfs
