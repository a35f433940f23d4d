#include "bench/iobench/run/machine.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

namespace tierfs::iobench {

namespace {

constexpr std::uint64_t kKernelThread = 0x00200000;  // PF_KTHREAD of the kernel's include/linux/sched.h

std::optional<std::uint64_t> whole_number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::vector<std::string_view> words_of(std::string_view text) {
    constexpr std::string_view kSpace = " \t";
    std::vector<std::string_view> words;
    for (std::size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
        const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
        words.push_back(text.substr(at, end - at));
        at = text.find_first_not_of(kSpace, end);
    }
    return words;
}

/// The words of the line whose first one is `key`; empty when there is none.
std::vector<std::string_view> line_of(std::string_view text, std::string_view key) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        auto words = words_of(text.substr(0, end));
        if (!words.empty() && words[0] == key) return words;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return {};
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
    const auto words = line_of(text, key);
    return words.size() < 2 ? std::nullopt : whole_number(words[1]);
}

std::string machine_file(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

double own_cpu() {
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    double total = 0;
    for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
        rusage usage{};
        getrusage(who, &usage);
        total += seconds(usage.ru_utime) + seconds(usage.ru_stime);
    }
    return total;
}

std::string percent(double share) {
    return std::to_string(std::lround(100 * share)) + " %";
}

using Key = std::pair<pid_t, std::uint64_t>;

std::map<Key, const ProcessTimes*> by_key(const std::vector<ProcessTimes>& processes) {
    std::map<Key, const ProcessTimes*> found;
    for (const auto& process : processes) found[{process.pid, process.started}] = &process;
    return found;
}

/// Who used the processors between two moments.
struct Users {
    double kernel_s = 0;
    const ProcessTimes* most = nullptr;  ///< that is not ours; with its children
};

Users users(const MachineState& before, const MachineState& after, const std::vector<pid_t>& ours) {
    const auto known = by_key(before.processes);
    Users users;
    double most = 0;
    for (const auto& process : after.processes) {
        const auto found = known.find({process.pid, process.started});
        double used = process.cpu_s + process.children_s;
        if (found != known.end()) used -= found->second->cpu_s + found->second->children_s;
        if (process.kernel) {
            users.kernel_s += used;
        } else if (used > most && process.pid != getpid() &&
                   std::find(ours.begin(), ours.end(), process.pid) == ours.end()) {
            most = used;
            users.most = &process;
        }
    }
    return users;
}

}  // namespace

std::optional<CacheDrops> parse_vmstat(std::string_view text) {
    const auto page = number_after(text, "drop_pagecache"), slab = number_after(text, "drop_slab");
    if (!page || !slab) return std::nullopt;
    return CacheDrops{*page, *slab};
}

std::optional<CpuTimes> parse_stat(std::string_view text, double ticks) {
    const auto words = line_of(text, "cpu");
    // user nice system idle iowait irq softirq steal; guest times, which follow, are a part of user and nice
    std::array<double, 8> fields{};
    if (words.size() <= fields.size()) return std::nullopt;
    CpuTimes times;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const auto value = whole_number(words[i + 1]);
        if (!value) return std::nullopt;
        fields.at(i) = static_cast<double>(*value) / ticks;
        times.total_s += fields.at(i);
    }
    times.busy_s = fields[0] + fields[1] + fields[2];
    times.stolen_s = fields[7];
    return times;
}

std::optional<ProcessTimes> parse_process_stat(std::string_view text, double ticks) {
    // PID (NAME) STATE …: the name may hold anything, so that its end is the last parenthesis.
    const std::size_t open = text.find(" ("), close = text.rfind(") ");
    if (open == std::string_view::npos || close == std::string_view::npos || close < open + 2)
        return std::nullopt;
    const auto words = words_of(text.substr(close + 2, text.find('\n', close) - close - 2));
    if (words.size() < 20) return std::nullopt;
    const auto pid = whole_number(text.substr(0, open));
    // proc(5) counts from 1, and the state is number 3.
    const auto flags = whole_number(words[9 - 3]), user = whole_number(words[14 - 3]),
               system = whole_number(words[15 - 3]), child_user = whole_number(words[16 - 3]),
               child_system = whole_number(words[17 - 3]), started = whole_number(words[22 - 3]);
    if (!pid || !flags || !user || !system || !child_user || !child_system || !started) return std::nullopt;
    return ProcessTimes{.pid = static_cast<pid_t>(*pid),
                        .name = std::string(text.substr(open + 2, close - open - 2)),
                        .kernel = (*flags & kKernelThread) != 0,
                        .started = *started,
                        .cpu_s = static_cast<double>(*user + *system) / ticks,
                        .children_s = static_cast<double>(*child_user + *child_system) / ticks};
}

std::optional<std::uint64_t> parse_status_memory(std::string_view text) {
    const auto anonymous = number_after(text, "RssAnon:"), shared = number_after(text, "RssShmem:");
    if (!anonymous || !shared) return std::nullopt;
    return (*anonymous + *shared + number_after(text, "HugetlbPages:").value_or(0)) << 10;
}

MachineState look_at_machine() {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    MachineState state;
    state.own_drops = own_drops();
    state.own_cpu_s = own_cpu();
    state.drops = parse_vmstat(machine_file("/proc/vmstat"));
    state.cpu = parse_stat(machine_file("/proc/stat"), ticks);
    std::error_code ignored;
    for (std::filesystem::directory_iterator entry("/proc", ignored), end; !ignored && entry != end;
         entry.increment(ignored)) {
        if (!whole_number(entry->path().filename().native())) continue;
        if (auto process = parse_process_stat(machine_file(entry->path() / "stat"), ticks))
            state.processes.push_back(std::move(*process));
    }
    return state;
}

std::vector<std::string> disturbances(const MachineState& before, const MachineState& after,
                                      const OwnDaemons& daemons) {
    std::vector<std::string> found;
    if (before.drops && after.drops) {
        const CacheDrops &was = *before.drops, &is = *after.drops;
        if (is.page - was.page > after.own_drops.page - before.own_drops.page ||
            is.slab - was.slab > after.own_drops.slab - before.own_drops.slab)
            found.emplace_back("caches were dropped by somebody else");
    }
    if (!before.cpu || !after.cpu) return found;
    const double all = after.cpu->total_s - before.cpu->total_s;
    const Users who = users(before, after, daemons.pids);
    const double others = after.cpu->busy_s - before.cpu->busy_s - who.kernel_s -
                          (after.own_cpu_s - before.own_cpu_s) - daemons.cpu_s;
    if (others > std::max(kCpuSeconds, kCpuShare * all))
        found.push_back("other programs used " + percent(std::min(1.0, others / all)) + " of the CPUs" +
                        (who.most == nullptr ? ""
                                             : ", most of it by " + who.most->name + " (process " +
                                                   std::to_string(who.most->pid) + ")"));
    const double stolen = after.cpu->stolen_s - before.cpu->stolen_s;
    if (stolen > std::max(kCpuSeconds, kCpuShare * all))
        found.push_back("the hypervisor gave " + percent(std::min(1.0, stolen / all)) +
                        " of the CPUs to others");
    return found;
}

}  // namespace tierfs::iobench
