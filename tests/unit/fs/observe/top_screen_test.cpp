#include "fs/observe/top_screen.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "fs/observe/figures.hpp"

namespace tierfs {
namespace top_screen_test {

TopView busy() {
    TopView view;
    view.seconds = 2;
    view.clock = "12:00:00";
    Snapshot& s = view.interval;
    s.mountpoint = "/mnt/data";
    s.source = "s3://bucket/prefix";
    s.uptime_s = 3725;
    s.reads = 2468;
    s.read_bytes = 2U << 30U;
    s.ram_bytes = 3U << 28U;
    s.nvme_bytes = 1U << 28U;
    s.origin_bytes = 1U << 30U;
    s.latency.origin.counts[15] = 100;  // 16 to 33 ms
    s.latency.origin.sum_us = 6'000'000;
    s.ram = {1U << 30U, 1U << 29U, 0, 0, 0, 0, 0, "normal"};
    s.connections = 128;
    s.memory_limit = 4U << 28U;
    s.memory_used = 1U << 28U;
    s.devices = {{"/nvme0", "normal", "", 100, 50}};
    s.datasets = {{"/cold/**", "once", false, 10, 10, 0, 0, 0, 0},
                  {"/hot/**", "epoch", true, 1U << 30U, 0, 2U << 20U, 5, 8U << 20U, 4U << 20U}};
    return view;
}

std::string all(const std::vector<std::string>& lines) {
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    return text;
}

TEST(TopScreen, ShowsRatesLatenciesAndWhoWaits) {
    const auto text = all(top_lines(busy(), 100, 40));
    for (const char* part : {"/mnt/data", "up 1:02:05", "reads 1234/s", "1 GiB/s", "from the tiers 50 %",
                             "waiting 3.0 readers on average: origin 3.0", "25 ms", ", 0 of 128 connections",
                             "256 MiB of 1 GiB [#####", "device    normal",
                             "4 MiB of 8 MiB  1 MiB/s  0:04 left", "epoch, frozen"})
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    EXPECT_LT(text.find("/hot/**  "), text.find("/cold/**")) << "the hottest first\n" << text;
}

TEST(TopScreen, FitsAnyTerminal) {
    auto view = busy();
    for (int i = 0; i < 40; ++i)
        view.interval.datasets.push_back({"/d" + std::to_string(i), "hot", false, 1, 0, 1, 0, 9, 1});
    for (const std::size_t width : {1U, 20U, 40U, 80U, 200U, 1000U}) {
        for (const std::size_t height : {1U, 3U, 24U, 50U}) {
            const auto lines = top_lines(view, width, height);
            EXPECT_LE(lines.size(), height);
            for (const auto& line : lines) EXPECT_LE(line.size(), std::max<std::size_t>(width, 20)) << line;
        }
    }
    EXPECT_NE(top_lines(view, 80, 24).back().find("more lines"), std::string::npos);
}

TEST(TopScreen, NamesCannotSteerTheTerminal) {
    auto view = busy();
    view.interval.mountpoint = "/mnt/\x1b[2J\n\x07";
    view.interval.datasets[0].match = "/\x1b]0;x\x07/**";
    for (const auto& line : top_lines(view, 120, 40)) {
        EXPECT_TRUE(std::none_of(line.begin(), line.end(), [](char c) {
            return static_cast<unsigned char>(c) < 0x20;
        })) << line;
    }
}

TEST(TopScreen, SaysWhyThereIsNothing) {
    TopView view;
    view.interval.mountpoint = "/mnt/data";
    view.notice = "the mount's daemon does not answer";
    const auto lines = top_lines(view, 80, 24);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[1], view.notice);
}

TEST(TopScreen, TellsLatenciesInWhatFits) {
    EXPECT_EQ(latency_text(0), "-");
    EXPECT_EQ(latency_text(12.4), "12 us");
    EXPECT_EQ(latency_text(999.9), "1.0 ms");
    EXPECT_EQ(latency_text(42'000), "42 ms");
    EXPECT_EQ(latency_text(1'500'000), "1.5 s");
    EXPECT_EQ(latency_text(120e6), "120 s");
}

}  // namespace top_screen_test
}  // namespace tierfs
