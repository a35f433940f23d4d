#include "config/units.hpp"

#include <gtest/gtest.h>

#include "config/settings.hpp"

namespace tierfs {
namespace {

TEST(UnitsTest, SizesArePowersOf1024) {
    EXPECT_EQ(parse_size("0").value(), 0U);
    EXPECT_EQ(parse_size("4096").value(), 4096U);
    EXPECT_EQ(parse_size("7B").value(), 7U);
    EXPECT_EQ(parse_size("64M").value(), 64U << 20);
    EXPECT_EQ(parse_size("64MiB").value(), 64U << 20);
    EXPECT_EQ(parse_size("1.5GiB").value(), 3ULL << 29);
    EXPECT_EQ(parse_size("2T").value(), 2ULL << 40);
    EXPECT_EQ(parse_size("9223372036854775807").value(), 9223372036854775807ULL);
}

TEST(UnitsTest, WhatIsNoSizeIsRefused) {
    for (const char* text : {"",
                             "M",
                             "-1",
                             "+1",
                             "1 M",
                             " 1",
                             "1MB",
                             "1kB",
                             "1.5",
                             "nan",
                             "inf",
                             "0x10",
                             "1e9",
                             "1..2",
                             "1.M",
                             ".5M",
                             "1Mi",
                             "1Q",
                             "9223372036854775808",
                             "99999999999T",
                             "1MiBx"}) {
        EXPECT_FALSE(parse_size(text)) << text;
    }
}

TEST(UnitsTest, DurationsHaveUnits) {
    using namespace std::chrono_literals;
    EXPECT_EQ(parse_duration("10s").value(), 10s);
    EXPECT_EQ(parse_duration("250ms").value(), 250ms);
    EXPECT_EQ(parse_duration("1.5m").value(), 90s);
    EXPECT_EQ(parse_duration("2h").value(), 2h);
    EXPECT_EQ(parse_duration("1d").value(), 24h);
    EXPECT_EQ(parse_duration("0").value(), 0ms);
    EXPECT_EQ(parse_duration("forever").value(), kForever);
    for (const char* text : {"", "10", "-1s", "s", "1 s", "1y", "9999999999999999d", "nans", "1ss"}) {
        EXPECT_FALSE(parse_duration(text)) << text;
    }
}

TEST(UnitsTest, ExactFormatsReadBack) {
    for (const std::uint64_t size :
         {0ULL, 1ULL, 1023ULL, 1024ULL, 1536ULL, 64ULL << 20, 3ULL << 40, (1ULL << 62) + 1}) {
        EXPECT_EQ(parse_size(format_size_exact(size)).value(), size);
    }
    for (const auto milliseconds : {0L, 1L, 999L, 1000L, 90'000L}) {
        const std::chrono::milliseconds duration(milliseconds);
        EXPECT_EQ(parse_duration(format_duration(duration)).value(), duration);
    }
    EXPECT_EQ(format_duration(kForever), "forever");
    EXPECT_EQ(format_size(512), "512 B");
    EXPECT_EQ(format_size(1536ULL << 20), "1.5 GiB");
}

}  // namespace
}  // namespace tierfs
