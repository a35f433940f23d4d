// Load of the whole machine: counters of /proc, read before and after each run to see whether somebody else
// was at work. The parsers take text and give none for what is not what the kernel writes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/iobench/run/host.hpp"

namespace tierfs::iobench {

/// Seconds of all processors since the machine started.
struct CpuTimes {
    double busy_s = 0;    ///< user, nice and system: what processes and kernel threads used
    double total_s = 0;   ///< all of the line: idle, waiting and interrupts too
    double stolen_s = 0;  ///< that the hypervisor gave to others

    bool operator==(const CpuTimes&) const = default;
};

/// A process, from /proc/PID/stat (proc(5)).
struct ProcessTimes {
    pid_t pid = 0;
    std::string name;
    bool kernel = false;        ///< a thread of the kernel
    std::uint64_t started = 0;  ///< ticks since the machine started; with the pid it tells processes apart
    double cpu_s = 0;           ///< user and system time
    double children_s = 0;      ///< of children that it has waited for

    bool operator==(const ProcessTimes&) const = default;
};

/// drop_pagecache and drop_slab of /proc/vmstat.
std::optional<CacheDrops> parse_vmstat(std::string_view text);

/// The line "cpu" of /proc/stat. `ticks`: a second, sysconf(_SC_CLK_TCK).
std::optional<CpuTimes> parse_stat(std::string_view text, double ticks);

std::optional<ProcessTimes> parse_process_stat(std::string_view text, double ticks);

/// RssAnon + RssShmem + HugetlbPages of /proc/PID/status in bytes: memory that only this process has, and not
/// what it maps of files.
std::optional<std::uint64_t> parse_status_memory(std::string_view text);

/// A moment of the machine. What cannot be read is missing.
struct MachineState {
    std::optional<CacheDrops> drops;
    CacheDrops own_drops;
    std::optional<CpuTimes> cpu;
    double own_cpu_s = 0;  ///< of this process and of children that it has waited for
    std::vector<ProcessTimes> processes;
};

MachineState look_at_machine();

/// Daemons of the targets: they work for us.
struct OwnDaemons {
    double cpu_s = 0;
    std::vector<pid_t> pids;
};

/// Other programs are told of above this share of all processors' time…
constexpr double kCpuShare = 0.05;
/// … and above so many seconds, since the kernel counts in ticks of some milliseconds.
constexpr double kCpuSeconds = 0.2;
/// A load average that is told of before a start.
constexpr double kLoad = 0.5;

/// Sentences, empty when nothing was wrong: "caches were dropped by somebody else", "other programs used 37 %
/// of the CPUs, most of it by clang (process 123)", "the hypervisor gave 12 % of the CPUs to others". Threads
/// of the kernel count as nobody's: they do what file systems and loop devices were asked for.
std::vector<std::string> disturbances(const MachineState& before, const MachineState& after,
                                      const OwnDaemons& daemons);

}  // namespace tierfs::iobench
