#include "fs/session/request_table.hpp"

#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <deque>
#include <thread>

namespace tierfs {
namespace request_table_test {

using Clock = RequestInfo::Clock;
using namespace std::chrono_literals;

/// libfuse's requests are opaque; the table never looks inside.
fuse_req_t fake(std::uintptr_t number) {
    return reinterpret_cast<fuse_req_t>(number);  // NOLINT
}

RequestInfo info(std::uint64_t unique, Clock::time_point since = Clock::now()) {
    return {unique, 17, FUSE_READ, 4711, static_cast<pid_t>(100 + unique), since};
}

TEST(RequestTable, EachIsTakenOnce) {
    RequestTable table;
    RequestTable::Entry entry;
    table.add(entry, fake(1), info(1), {"name", nullptr});
    EXPECT_EQ(table.summary().under_way, 1U);
    EXPECT_TRUE(table.take(entry));
    EXPECT_FALSE(table.take(entry));
    EXPECT_EQ(table.summary().under_way, 0U);
    EXPECT_TRUE(table.take_if([](const RequestInfo&) { return true; }).empty());
}

TEST(RequestTable, WhoTakesFromOutsideGetsTheRequest) {
    RequestTable table;
    std::deque<RequestTable::Entry> entries(3);
    for (std::uint64_t i = 0; i < 3; ++i) table.add(entries[i], fake(i + 1), info(i), {"n", nullptr});
    const auto taken = table.take_if([](const RequestInfo& one) { return one.unique == 1; });
    ASSERT_EQ(taken.size(), 1U);
    EXPECT_EQ(taken[0].raw, fake(2));
    EXPECT_EQ(taken[0].about, "n");
    EXPECT_FALSE(table.take(entries[1]));
    EXPECT_TRUE(table.take(entries[0]));
    EXPECT_TRUE(table.take(entries[2]));
}

TEST(RequestTable, WhatWaitsForAProcessIsNotLateAndEndsBySignals) {
    RequestTable table;
    std::deque<RequestTable::Entry> entries(3);
    const auto now = Clock::now();
    const auto no = [](fuse_req_t) { return 0; };
    const auto yes = [](fuse_req_t) { return 1; };
    for (std::uint64_t i = 0; i < 3; ++i) table.add(entries[i], fake(i + 1), info(i + 1, now - 10s), {});
    EXPECT_EQ(table.take_interrupted(1), nullptr);
    EXPECT_TRUE(table.wait(entries[0], no));
    EXPECT_EQ(table.summary().under_way, 2U);
    EXPECT_EQ(table.unreported_before(now, 10).size(), 2U);
    EXPECT_EQ(table.take_interrupted(1), nullptr);
    EXPECT_TRUE(table.mark_interrupted(1));
    EXPECT_TRUE(table.is_there(entries[0]));
    EXPECT_EQ(table.take_interrupted(1), fake(1));
    EXPECT_FALSE(table.is_there(entries[0]));
    EXPECT_FALSE(table.take(entries[0]));
    EXPECT_TRUE(table.mark_interrupted(2));  // the signal was first
    EXPECT_FALSE(table.wait(entries[1], no));
    EXPECT_FALSE(table.wait(entries[2], yes));  // only libfuse knows yet
    EXPECT_TRUE(table.take(entries[1]));
    EXPECT_TRUE(table.take(entries[2]));
}

TEST(RequestTable, WhoHasWhatHeWaitedForIsInterruptedNoMore) {
    RequestTable table;
    RequestTable::Entry entry;
    const auto begun = Clock::now() - 10s;
    table.add(entry, fake(1), info(1, begun), {});
    EXPECT_TRUE(table.wait(entry, [](fuse_req_t) { return 0; }));
    EXPECT_TRUE(table.end_wait(entry));
    EXPECT_TRUE(table.mark_interrupted(1));
    EXPECT_EQ(table.take_interrupted(1), nullptr);
    EXPECT_EQ(table.summary().under_way, 1U);
    EXPECT_TRUE(table.unreported_before(begun + 5s, 10).empty()) << "it is not late";
    EXPECT_TRUE(table.take(entry));
    EXPECT_FALSE(table.end_wait(entry)) << "it is answered";
}

TEST(RequestTable, ReportsTheOldOnce) {
    RequestTable table;
    std::deque<RequestTable::Entry> entries(3);
    const auto now = Clock::now();
    table.add(entries[0], fake(1), info(1, now - 10s), {});
    table.add(entries[1], fake(2), info(2, now - 20s), {});
    table.add(entries[2], fake(3), info(3, now), {});
    EXPECT_EQ(table.summary().oldest, now - 20s);
    EXPECT_EQ(table.unreported_before(now - 5s, 1).size(), 1U);
    EXPECT_EQ(table.unreported_before(now - 5s, 10).size(), 1U);
    EXPECT_TRUE(table.unreported_before(now - 5s, 10).empty());
    for (auto& entry : entries) EXPECT_TRUE(table.take(entry));
}

TEST(RequestTable, KnowsWhoWasInterrupted) {
    RequestTable table;
    const auto begun = Clock::now() - 1h;
    RequestTable::Entry entry;
    table.add(entry, fake(1), info(9), {});
    EXPECT_FALSE(table.mark_interrupted(8));
    EXPECT_TRUE(table.interrupted_or_before(begun).empty());
    EXPECT_TRUE(table.mark_interrupted(9));
    ASSERT_EQ(table.interrupted_or_before(begun).size(), 1U);
    EXPECT_EQ(table.interrupted_or_before(begun)[0].second, 4711);
    RequestTable::Entry old;
    table.add(old, fake(2), info(10, begun - 1s), {});
    EXPECT_EQ(table.interrupted_or_before(begun).size(), 2U);
    EXPECT_EQ(table.take_if([](const RequestInfo&) { return true; }).size(), 2U);
}

TEST(RequestTable, ManyThreadsAndAWatcherShareIt) {
    RequestTable table;
    std::atomic<unsigned> answered{0};
    constexpr unsigned kThreads = 4, kEach = 5000;
    std::vector<std::thread> threads;
    std::atomic<unsigned> left{kThreads};
    for (unsigned t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (unsigned i = 0; i < kEach; ++i) {
                RequestTable::Entry entry;
                auto one = info(t * kEach + i);
                one.thread = static_cast<pid_t>(t);
                table.add(entry, fake(1), one, {});
                if (table.take(entry)) ++answered;
            }
            --left;
        });
    }
    while (left > 0) answered += table.take_if([](const RequestInfo&) { return true; }).size();
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(answered, kThreads * kEach);
    EXPECT_EQ(table.summary().under_way, 0U);
}

TEST(RequestTable, NamesRequests) {
    EXPECT_EQ(opcode_name(FUSE_READ), "READ");
    EXPECT_EQ(opcode_name(4242), "request 4242");
    EXPECT_TRUE(takes_its_time(FUSE_READDIRPLUS));
    EXPECT_TRUE(takes_its_time(FUSE_FSYNC));
    EXPECT_FALSE(takes_its_time(FUSE_LOOKUP));
    EXPECT_EQ(opcode_name(FUSE_WRITE), "WRITE");
}

}  // namespace request_table_test
}  // namespace tierfs
