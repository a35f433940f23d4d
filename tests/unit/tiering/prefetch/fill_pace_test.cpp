// FillPace: a mount's readers, its fill and a server in simulated time.
#include "tiering/prefetch/fill_pace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <queue>
#include <random>
#include <vector>

namespace tierfs {
namespace fill_pace_test {

using std::chrono::microseconds;
using Time = FillPace::Clock::time_point;

/// A machine that needs `work` for each file that the fill brings and twice as much for one that a reader waits for, one after
/// another, and a server `travel` away; four readers who ask for `files` in no order, and a fill that brings them in order as its
/// pace allows.
struct World {
    microseconds travel, work;
    std::uint64_t files = 20'000;
    bool fills = true;
    int readers = 4;
    FillPace::Limits limits{256, false, 0};

    std::uint64_t read = 0, brought = 0, found = 0;

    /// Until `count` files were read; how long that took.
    microseconds run(std::uint64_t count) {
        FillPace pace(limits);
        struct Event {
            Time at;
            bool fill = false;
            FillPace::Request wait;
            bool operator<(const Event& other) const { return at > other.at; }
        };
        std::priority_queue<Event> events;
        const Time start{std::chrono::hours(1)};
        Time now = start, free = start;
        std::uint64_t filling = 0;
        std::vector<bool> has(files);
        std::vector<std::uint64_t> order(files);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), std::mt19937(7));  // NOLINT: the same each time
        std::uint64_t next = 0;
        const auto request = [&](bool fill) {
            free = std::max(free, now) + (fill ? work : 2 * work);
            FillPace::Request wait{now, filling};
            if (!fill) pace.waits(wait);
            events.push({free + travel, fill, wait});
        };
        const auto ask = [&] {
            while (read < count) {
                const std::uint64_t file = order[read++];
                pace.asked(1000);
                if (!has[file]) return request(false);
                ++found;
                pace.found(1);
                now += work / 4;  // even what is there costs something
            }
        };
        const auto fill = [&] {
            while (fills && read >= 32 && next < files && pace.may_send(filling, now)) {
                pace.sent(1, 1000);
                has[next++] = true;
                ++filling;
                ++brought;
                request(true);
            }
        };
        for (int reader = 0; reader < readers; ++reader) ask();
        while (read < count && !events.empty()) {
            const Event event = events.top();
            events.pop();
            now = std::max(now, event.at);
            if (event.fill) {
                --filling;
            } else {
                pace.answered(event.wait, now, false);
                ask();
            }
            fill();
        }
        return std::chrono::duration_cast<microseconds>(now - start);
    }
};

World near() {
    return {microseconds(200), microseconds(250)};
}
World far() {
    return {microseconds(20'000), microseconds(250)};
}

TEST(FillPace, CostsReadersOfAFewFilesNextToNothingWhereTheProcessorsAreBusy) {
    World quiet = near();
    quiet.fills = false;
    World filled = near();
    World unpaced = near();
    unpaced.limits.all = true;
    const auto alone = quiet.run(600), beside = filled.run(600), before = unpaced.run(600);
    EXPECT_LT(beside, alone * 13 / 10);
    EXPECT_GT(before, alone * 4) << "so it was without a pace";
}

TEST(FillPace, TakesWhatReadersLeaveWhereRequestsTravelForLong) {
    World filled = far();
    (void)filled.run(600);
    EXPECT_GT(filled.brought, 5 * filled.read);
    World quiet = far();
    quiet.fills = false;
    World same = far();
    EXPECT_LT(same.run(600), quiet.run(600) * 12 / 10);
}

TEST(FillPace, AnEpochEndsWithTheWireWhereRequestsTravelForLong) {
    World filled = far(), unpaced = far(), quiet = far();
    unpaced.limits.all = true;
    quiet.fills = false;
    const auto with = filled.run(20'000);
    EXPECT_LT(with, unpaced.run(20'000) * 13 / 10);
    EXPECT_LT(with * 8, quiet.run(20'000));
}

TEST(FillPace, AnEpochIsNotHeldUpWhereTheProcessorsAreBusy) {
    World filled = near(), quiet = near();
    quiet.fills = false;
    EXPECT_LT(filled.run(20'000), quiet.run(20'000) * 12 / 10);
}

TEST(FillPace, KeepsItsMeasureWhereAReaderWaitsForLong) {
    for (const int readers : {1, 4}) {
        World filled{microseconds(100'000), microseconds(2'000)}, quiet = filled;
        filled.readers = quiet.readers = readers;
        quiet.fills = false;
        EXPECT_LT(filled.run(300), quiet.run(300) * 14 / 10) << readers;
        EXPECT_GT(filled.brought, 1000U) << readers;
    }
}

TEST(FillPace, BecomesNarrowAgainWhenReadersComeBack) {
    FillPace pace({256, false, 0});
    Time now{std::chrono::hours(1)};
    for (int i = 0; i < 100; ++i) pace.asked(1000);
    const auto read = [&](std::chrono::microseconds wait, std::uint64_t fill) {
        FillPace::Request request{now, fill};
        pace.waits(request);
        now += wait;
        pace.answered(request, now, false);
    };
    for (int i = 0; i < 32; ++i) read(microseconds(500), 0);
    for (int i = 0; i < 10; ++i) {
        now += FillPace::kIdle;
        (void)pace.may_send(255, now);
    }
    EXPECT_EQ(pace.status().window, 256U);
    for (int i = 0; i < 60; ++i) {
        read(microseconds(250) * (2 + pace.status().window), pace.status().window);
        (void)pace.may_send(255, now);
    }
    EXPECT_LE(pace.status().window, 4U);
}

TEST(FillPace, BringsLittleUntilEnoughWasRead) {
    FillPace pace({256, false, 0});
    const Time now{std::chrono::hours(1)};
    for (int i = 0; i < 10; ++i) pace.asked(1000);
    std::uint64_t sent = 0;
    for (; pace.may_send(0, now); ++sent) pace.sent(1, 1000);
    EXPECT_EQ(sent, 10 * FillPace::kAhead);
    for (std::uint64_t i = 10; i < FillPace::kFirst; ++i) pace.asked(1000);
    EXPECT_TRUE(pace.may_send(0, now));
}

TEST(FillPace, KeepsToANumberOfFilesForEachThatWasRead) {
    FillPace pace({256, false, 2});
    const Time now{std::chrono::hours(1)};
    for (int i = 0; i < 1000; ++i) pace.asked(1000);
    std::uint64_t sent = 0;
    for (; pace.may_send(0, now); ++sent) pace.sent(1, 1000);
    EXPECT_EQ(sent, 2000U);
}

TEST(FillPace, GrowsWhileNobodyWaits) {
    FillPace pace({256, false, 0});
    for (int i = 0; i < 100; ++i) pace.asked(1000);
    Time now{std::chrono::hours(1)};
    EXPECT_FALSE(pace.may_send(200, now));
    for (int i = 0; i < 10; ++i) {
        now += FillPace::kIdle;
        (void)pace.may_send(200, now);
    }
    EXPECT_TRUE(pace.may_send(200, now));
    EXPECT_FALSE(pace.may_send(256, now));
}

}  // namespace fill_pace_test
}  // namespace tierfs
