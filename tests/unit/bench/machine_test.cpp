#include "bench/iobench/run/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tierfs::iobench {
namespace machine_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Vmstat, CountsDrops) {
    EXPECT_EQ(parse_vmstat("nr_free_pages 7\ndrop_pagecache 12\ndrop_slab 3\noom_kill 0\n"),
              (CacheDrops{12, 3}));
    EXPECT_EQ(parse_vmstat("drop_slab 3\ndrop_pagecache 12"), (CacheDrops{12, 3}));
}

TEST(Vmstat, OtherTextIsNone) {
    for (const auto* text :
         {"", "\n\n", "drop_pagecache", "drop_pagecache 1", "drop_pagecache x\ndrop_slab 1",
          "drop_pagecache -1\ndrop_slab 1", "drop_pagecache 1\ndrop_slab 99999999999999999999999",
          "xdrop_pagecache 1\nxdrop_slab 1"})
        EXPECT_EQ(parse_vmstat(text), std::nullopt) << text;
}

TEST(Stat, AddsUpTheFirstLine) {
    // user nice system idle iowait irq softirq steal guest guest_nice
    const auto times =
        parse_stat("cpu  100 20 30 400 50 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5\n", 100);
    ASSERT_TRUE(times);
    EXPECT_DOUBLE_EQ(times->busy_s, 1.5);
    EXPECT_DOUBLE_EQ(times->total_s, 6.21);
    EXPECT_DOUBLE_EQ(times->stolen_s, 0.08);
}

TEST(Stat, OtherTextIsNone) {
    for (const auto* text : {"", "cpu", "cpu 1 2 3 4 5 6 7", "cpu0 1 2 3 4 5 6 7 8 9 10",
                             "cpu 1 2 3 4 5 6 7 x", "cpu 1 2 3 4 5 6 7 -8", "cpux 1 2 3 4 5 6 7 8"})
        EXPECT_EQ(parse_stat(text, 100), std::nullopt) << text;
}

std::string process_line(const std::string& name, const std::string& flags = "4194560") {
    return "123 (" + name + ") S 1 123 123 0 -1 " + flags +
           " 10 20 0 0 250 50 400 100 20 0 1 0 9876 1000 200\n";
}

TEST(ProcessStat, HasTimesAndName) {
    const auto times = parse_process_stat(process_line("tierfs"), 100);
    EXPECT_EQ(
        times,
        (ProcessTimes{
            .pid = 123, .name = "tierfs", .kernel = false, .started = 9876, .cpu_s = 3, .children_s = 5}));
    EXPECT_TRUE(parse_process_stat(process_line("kworker/0:1", "69238880"), 100)->kernel);
}

TEST(ProcessStat, NameMayHoldAnything) {
    for (const auto* name : {"", "a b", ") R 1 2 3", "(", "a) (b", "x\ny"}) {
        const auto times = parse_process_stat(process_line(name), 100);
        ASSERT_TRUE(times) << name;
        EXPECT_EQ(times->name, name);
        EXPECT_DOUBLE_EQ(times->cpu_s, 3);
    }
}

TEST(ProcessStat, OtherTextIsNone) {
    for (const auto* text : {"", "123", "123 (name", "123 (name)", "123 (name) S 1 2 3", ") (", "x (name) S"})
        EXPECT_EQ(parse_process_stat(text, 100), std::nullopt) << text;
    EXPECT_EQ(parse_process_stat(process_line("a", "flags"), 100), std::nullopt);
}

TEST(ProcessStat, ReadsThisProcess) {
    const auto state = look_at_machine();
    ASSERT_TRUE(state.cpu);
    EXPECT_GT(state.cpu->total_s, 0);
    const auto self = std::find_if(state.processes.begin(), state.processes.end(),
                                   [](const auto& process) { return process.pid == getpid(); });
    ASSERT_NE(self, state.processes.end());
    EXPECT_FALSE(self->kernel);
}

TEST(StatusMemory, AddsWhatTheProcessHasAlone) {
    EXPECT_EQ(
        parse_status_memory("VmRSS:\t 900 kB\nRssAnon:\t  100 kB\nRssFile:\t 700 kB\nRssShmem:\t 20 kB\n"
                            "HugetlbPages:\t 8 kB\n"),
        128U << 10);
    EXPECT_EQ(parse_status_memory("RssAnon: 1 kB\nRssShmem: 2 kB\n"), 3U << 10);
    for (const auto* text : {"", "RssAnon:", "RssAnon: 1 kB", "RssAnon: many kB\nRssShmem: 1 kB"})
        EXPECT_EQ(parse_status_memory(text), std::nullopt) << text;
}

/// Two processors over ten seconds: 20 s of time.
struct Moments {
    MachineState before, after;
    Moments() {
        before.drops = CacheDrops{5, 5};
        before.own_drops = CacheDrops{1, 1};
        before.cpu = CpuTimes{.busy_s = 100, .total_s = 1000, .stolen_s = 3};
        before.own_cpu_s = 40;
        after = before;
        after.cpu->total_s += 20;
    }
    [[nodiscard]] std::vector<std::string> found(const OwnDaemons& daemons = {}) const {
        return disturbances(before, after, daemons);
    }
};

TEST(Disturbances, QuietMachineHasNone) {
    EXPECT_THAT(Moments().found(), IsEmpty());
}

TEST(Disturbances, DropsOfOthersAreToldFromOurs) {
    Moments moments;
    moments.after.drops = CacheDrops{7, 6};
    moments.after.own_drops = CacheDrops{3, 2};
    EXPECT_THAT(moments.found(), IsEmpty());
    moments.after.own_drops = CacheDrops{2, 2};
    EXPECT_THAT(moments.found(), ElementsAre("caches were dropped by somebody else"));
    moments.after.own_drops = CacheDrops{3, 1};
    EXPECT_THAT(moments.found(), ElementsAre("caches were dropped by somebody else"));
}

TEST(Disturbances, ProcessorTimeOfOthersIsTold) {
    Moments moments;
    moments.after.cpu->busy_s += 8;
    moments.after.own_cpu_s += 4;
    moments.before.processes = {{.pid = 7, .name = "clang", .started = 1, .cpu_s = 2},
                                {.pid = 9, .name = "make", .started = 1, .children_s = 50}};
    moments.after.processes = {{.pid = 7, .name = "clang", .started = 1, .cpu_s = 4},
                               {.pid = 9, .name = "make", .started = 1, .children_s = 51}};
    EXPECT_THAT(moments.found(),
                ElementsAre("other programs used 20 % of the CPUs, most of it by clang (process 7)"));
}

TEST(Disturbances, OurTimeIsNobodyElses) {
    Moments moments;
    moments.after.cpu->busy_s += 12;
    moments.after.own_cpu_s += 6;
    moments.after.processes = {{.pid = 5, .name = "tierfs", .started = 1, .cpu_s = 3},
                               {.pid = 6, .name = "kworker", .kernel = true, .started = 1, .cpu_s = 2.5}};
    EXPECT_THAT(moments.found({.cpu_s = 3, .pids = {5}}), IsEmpty());
    moments.after.processes[1].kernel = false;
    EXPECT_THAT(moments.found({.cpu_s = 3, .pids = {5}}), ElementsAre(HasSubstr("kworker (process 6)")));
}

TEST(Disturbances, ThresholdIsAShareAndSomeTicks) {
    Moments moments;
    moments.after.cpu->busy_s += 20 * kCpuShare - 0.01;
    EXPECT_THAT(moments.found(), IsEmpty());
    moments.after.cpu->busy_s += 0.02;
    EXPECT_THAT(moments.found(), ElementsAre("other programs used 5 % of the CPUs"));
    moments.after.cpu->total_s = moments.before.cpu->total_s + 0.3;
    moments.after.cpu->busy_s = moments.before.cpu->busy_s + kCpuSeconds - 0.01;
    EXPECT_THAT(moments.found(), IsEmpty());
}

TEST(Disturbances, HypervisorIsTold) {
    Moments moments;
    moments.after.cpu->stolen_s += 5;
    EXPECT_THAT(moments.found(), ElementsAre("the hypervisor gave 25 % of the CPUs to others"));
}

TEST(Disturbances, NothingIsKnownOfMachinesThatTellNothing) {
    Moments moments;
    moments.after.drops.reset();
    moments.before.cpu.reset();
    EXPECT_THAT(moments.found(), IsEmpty());
    EXPECT_THAT(disturbances({}, {}, {}), IsEmpty());
}

}  // namespace machine_test
}  // namespace tierfs::iobench
