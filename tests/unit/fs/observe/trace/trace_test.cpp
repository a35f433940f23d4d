#include "fs/observe/trace/trace.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "fs/observe/trace/trace_wire.hpp"
#include "fs/observe/trace_lines.hpp"

namespace tierfs {
namespace trace_test {

using namespace std::chrono_literals;

const Trace::Clock::time_point kNow{1h};

TraceEvent event(std::uint64_t offset = 0, const std::string& path = "a/b") {
    ObjectRef object;
    object.path = path;
    object.size = 5000;
    TraceEvent made;
    made.object = std::make_shared<const ObjectRef>(object);
    made.reader = {77, 1000, "cat"};
    made.offset = offset;
    made.length = 4096;
    made.took = 12us;
    made.time += 1s;
    return made;
}

TEST(Trace, NobodyAsks) {
    Trace trace;
    EXPECT_FALSE(trace.is_on());
    trace.add(event());
    EXPECT_FALSE(trace.take(1, 10, kNow));
    EXPECT_EQ(TracedRead::begin(trace, event().object, 1, 0, 0), nullptr);
}

TEST(Trace, EachTracerGetsWhatCameSinceItBegan) {
    Trace trace;
    const auto one = *trace.start(kNow);
    trace.add(event(1));
    const auto other = *trace.start(kNow);
    EXPECT_NE(one, other);
    trace.add(event(2));
    const auto first = trace.take(one, 1, kNow);
    ASSERT_TRUE(first);
    ASSERT_EQ(first->events.size(), 1U);
    EXPECT_EQ(first->events[0].offset, 1U);
    EXPECT_TRUE(first->more);
    EXPECT_EQ(trace.take(one, 9, kNow)->events.size(), 1U);
    EXPECT_EQ(trace.take(other, 9, kNow)->events.at(0).offset, 2U);
    trace.stop(one);
    EXPECT_FALSE(trace.take(one, 9, kNow));
    EXPECT_TRUE(trace.is_on());
    trace.stop(other);
    EXPECT_FALSE(trace.is_on());
}

TEST(Trace, WhatIsNotFetchedIsCountedAndLost) {
    Trace trace;
    const auto number = *trace.start(kNow);
    for (std::uint64_t i = 0; i < Trace::kMostEvents + 5; ++i) trace.add(event(i));
    auto batch = trace.take(number, Trace::kMostEvents - 1, kNow);
    EXPECT_EQ(batch->events.size(), Trace::kMostEvents - 1);
    EXPECT_EQ(batch->dropped, 0U) << "they were lost behind those that are still there";
    trace.add(event());  // lost too: no gap but the one that is told
    batch = trace.take(number, 100, kNow);
    ASSERT_EQ(batch->events.size(), 1U);
    EXPECT_EQ(batch->events[0].offset, Trace::kMostEvents - 1);
    EXPECT_EQ(batch->dropped, 6U);
    EXPECT_FALSE(batch->more);
    trace.add(event(7));
    batch = trace.take(number, 100, kNow);
    EXPECT_EQ(batch->events.at(0).offset, 7U);
    EXPECT_EQ(batch->dropped, 0U);
}

TEST(Trace, WhoHasGoneIsForgotten) {
    Trace trace;
    const auto stays = *trace.start(kNow), goes = *trace.start(kNow);
    EXPECT_EQ(trace.tick(kNow + Trace::kPatience), 0U);
    ASSERT_TRUE(trace.take(stays, 1, kNow + Trace::kPatience));
    EXPECT_EQ(trace.tick(kNow + Trace::kPatience + 1s), 1U);
    EXPECT_FALSE(trace.take(goes, 1, kNow));
    EXPECT_EQ(trace.tick(kNow + 100 * Trace::kPatience), 1U);
    EXPECT_FALSE(trace.is_on());
}

TEST(Trace, OnlySoMany) {
    Trace trace;
    std::set<std::uint64_t> numbers;
    for (std::size_t i = 0; i < Trace::kMostTracers; ++i) numbers.insert(*trace.start(kNow));
    EXPECT_EQ(numbers.size(), Trace::kMostTracers);
    const auto refused = trace.start(kNow);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EBUSY);
    trace.stop(*numbers.begin());
    EXPECT_TRUE(trace.start(kNow));
}

TEST(Trace, ThreadsAddWhileOthersComeAndGo) {
    Trace trace;
    const auto number = *trace.start(kNow);
    constexpr std::uint64_t kEach = 2000;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&] {
            for (std::uint64_t i = 0; i < kEach; ++i) {
                if (const auto read = TracedRead::begin(trace, event().object, ::gettid(), 5, i))
                    read->answered(ReadReply{});
            }
        });
    }
    threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
            const auto other = *trace.start(kNow);
            trace.take(other, 10, kNow);
            trace.stop(other);
        }
    });
    std::uint64_t seen = 0;
    while (seen < 4 * kEach) {
        const auto batch = trace.take(number, 100, kNow);
        seen += batch->events.size() + batch->dropped;
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(seen, 4 * kEach);
}

TEST(Trace, TheTierIsThatOfTheBytes) {
    auto made = event();
    EXPECT_EQ(tier_of(made), "ram");
    made.nvme_bytes = 4096;
    EXPECT_EQ(tier_of(made), "nvme");
    made.nvme_bytes = 96;
    EXPECT_EQ(tier_of(made), "mixed");
    made.origin_bytes = 4000;
    EXPECT_EQ(tier_of(made), "mixed");
    made.nvme_bytes = 0;
    made.origin_bytes = 4096;
    EXPECT_EQ(tier_of(made), "origin");
    made.error = EIO;
    EXPECT_EQ(tier_of(made), "error");
}

TEST(Trace, TheReaderIsLookedUp) {
    const auto reader = parse_reader("Name:\ta b\nUmask:\t0022\nTgid:\t42\nPid:\t43\n");
    EXPECT_EQ(reader.command, "a b");
    EXPECT_EQ(reader.pid, 42);
    for (const char* odd : {"", "Name:\t", "Tgid:\tx\n", "Name", "\n\n", "Tgid:\t99999999999999999999"})
        EXPECT_EQ(parse_reader(odd).pid, 0) << odd;
    const auto here = look_up_reader(::gettid(), 7);
    EXPECT_EQ(here.pid, ::getpid());
    EXPECT_EQ(here.uid, 7U);
    EXPECT_FALSE(here.command.empty());
    EXPECT_EQ(look_up_reader(0, 7).pid, 0);
}

TraceLines through_wire(Trace& trace, std::uint64_t number) {
    const auto answer = answer_trace(trace, "trace-take", {{"trace", number}});
    EXPECT_TRUE(answer);
    auto lines = read_trace_lines(*answer);
    EXPECT_TRUE(lines);
    return lines ? *lines : TraceLines{};
}

TEST(TraceWire, GoesThere) {
    Trace trace;
    const auto started = answer_trace(trace, "trace-start", nlohmann::json::object());
    ASSERT_TRUE(started);
    const auto number = started->at("trace").get<std::uint64_t>();
    auto failed = event(3, "caf\xe9");
    failed.error = ENOENT;
    trace.add(event(9));
    trace.add(failed);
    const auto lines = through_wire(trace, number);
    ASSERT_EQ(lines.lines.size(), 2U);
    const auto& line = lines.lines[0];
    EXPECT_EQ(line.path, "a/b");
    EXPECT_EQ(line.command, "cat");
    EXPECT_EQ(line.tier, "ram");
    EXPECT_EQ(line.pid, 77);
    EXPECT_EQ(line.uid, 1000U);
    EXPECT_EQ(line.offset, 9U);
    EXPECT_EQ(line.length, 4096U);
    EXPECT_EQ(line.took_us, 12);
    EXPECT_EQ(line.time_us, 1'000'000);
    EXPECT_EQ(lines.lines[1].path, "caf\xe9");
    EXPECT_EQ(lines.lines[1].error, ENOENT);
    ASSERT_TRUE(answer_trace(trace, "trace-stop", {{"trace", number}}));
    EXPECT_FALSE(trace.is_on());
    EXPECT_TRUE(through_wire(trace, number).ended);
}

TEST(TraceWire, WhatIsNoRequestAndNoAnswer) {
    Trace trace;
    EXPECT_EQ(answer_trace(trace, "trace-none", nlohmann::json::object()).error().code, ENOSYS);
    for (const nlohmann::json& odd : {nlohmann::json::object(), nlohmann::json{{"trace", "1"}}})
        EXPECT_EQ(answer_trace(trace, "trace-take", odd).error().code, EINVAL);
    for (const char* odd :
         {"{}", "[]", "1", R"({"ended":false,"more":false,"dropped":0,"events":[{}]})",
          R"({"ended":false,"more":false,"dropped":-1})", R"({"ended":1,"more":2,"dropped":3,"events":4})"})
        EXPECT_FALSE(read_trace_lines(nlohmann::json::parse(odd))) << odd;
}

TEST(TraceWire, NumbersOfNobodysAreNoneThatWouldBeUndefined) {
    const auto lines = read_trace_lines(nlohmann::json::parse(
        R"({"ended": false, "more": false, "dropped": 1e300, "events": [{"passthrough": false,
            "time_us": -9223372036854775808, "took_us": 1e300, "pid": 1.5, "uid": -1.5e300, "command": "c",
            "path": "p", "tier": "%1b[2J", "offset": 1e300, "length": 2, "nvme_bytes": 0, "origin_bytes": 0,
            "error": 1e300}]})"));
    ASSERT_TRUE(lines && lines->lines.size() == 1);
    auto line = lines->lines[0];
    EXPECT_EQ(lines->dropped, 0U);
    EXPECT_EQ(line.time_us, 0);
    EXPECT_EQ(line.offset, 0U);
    EXPECT_EQ(line.length, 2U);
    EXPECT_EQ(line.error, 0);
    TraceLineWriter columns(TraceLineWriter::Form::columns, "/mnt");
    EXPECT_EQ(columns.line(line).find('\x1b'), std::string::npos);
    line.time_us = std::numeric_limits<std::int64_t>::max();
    EXPECT_NE(columns.line(line), "");
}

TEST(TraceLines, ForPeopleAndForPrograms) {
    TraceLine line;
    line.command = "x\x1b[31m";
    line.path = "a\nb\xff";
    line.tier = "origin";
    line.offset = 12;
    line.pid = 3;
    TraceLineWriter columns(TraceLineWriter::Form::columns, "/mnt");
    const auto text = columns.line(line);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find('\n'), text.size() - 1);
    EXPECT_NE(text.find("a\\nb"), std::string::npos) << text;
    EXPECT_EQ(columns.head().find(" PATH"), text.find(" a\\nb"));
    TraceLineWriter json(TraceLineWriter::Form::json, "/mnt");
    auto parsed = nlohmann::json::parse(json.line(line));
    EXPECT_EQ(parsed.at("path"), "a\nb\xef\xbf\xbd");
    EXPECT_EQ(parsed.at("tier"), "origin");
    EXPECT_EQ(parsed.at("event"), "read");
    EXPECT_EQ(parsed.at("time"), "1970-01-01T00:00:00.000000Z");
    EXPECT_EQ(parsed.count("error"), 0U);
    line.error = ENOENT;
    EXPECT_EQ(nlohmann::json::parse(json.line(line)).at("error"), "No such file or directory");
    EXPECT_EQ(nlohmann::json::parse(json.dropped(4)).at("count"), 4);
    EXPECT_EQ(json.dropped(0), "");
    EXPECT_NE(columns.dropped(4).find("... 4 "), std::string::npos);
}

TEST(TraceLines, AListOfWhatWasReadFirst) {
    TraceLineWriter order(TraceLineWriter::Form::order, "/mnt");
    TraceLine line;
    line.path = "b\xff";
    EXPECT_EQ(order.head(), "");
    EXPECT_EQ(order.line(line), "/mnt/b\xff\n");
    EXPECT_EQ(order.line(line), "");
    line.path = "a";
    line.error = EIO;
    EXPECT_EQ(order.line(line), "") << "nothing was read of it";
    line.error = 0;
    EXPECT_EQ(order.line(line), "/mnt/a\n");
    line.path = "c\nd";
    EXPECT_EQ(order.line(line), "");
    EXPECT_EQ(order.left_out(), 1U);
    EXPECT_EQ(order.dropped(3), "");
    TraceLineWriter root(TraceLineWriter::Form::order, "/");
    line.path = "a";
    EXPECT_EQ(root.line(line), "/a\n");
}

}  // namespace trace_test
}  // namespace tierfs
