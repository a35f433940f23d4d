#include "bench/iobench/run/host.hpp"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "bench/iobench/data/files.hpp"
#include "bench/iobench/run/workers.hpp"

namespace tierfs::iobench {

namespace {

/// Shared with the children that are forked after the first call: each run drops caches in a process of its
/// own.
CacheDrops& counted_drops() {
    static Shared<CacheDrops> drops(1);
    return drops[0];
}

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

}  // namespace

nlohmann::ordered_json host_facts() {
    utsname system{};
    uname(&system);
    const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
    return {{"kernel", std::string(system.sysname) + " " + system.release},
            {"machine", system.machine},
            {"cpu", processor_name()},
            {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
            {"memory_bytes", pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))},
            {"load_average_1m", load_average()}};
}

double load_average() {
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

CacheDrops own_drops() {
    return {__atomic_load_n(&counted_drops().page, __ATOMIC_SEQ_CST),
            __atomic_load_n(&counted_drops().slab, __ATOMIC_SEQ_CST)};
}

Result<void> drop_caches(DropCaches what) {
    if (what == DropCaches::none) return {};
    constexpr const char* kPath = "/proc/sys/vm/drop_caches";
    sync();
    const Fd file(::open(kPath, O_WRONLY | O_CLOEXEC));
    if (file.get() >= 0 && ::write(file.get(), what == DropCaches::page ? "1" : "3", 1) == 1) {
        __atomic_fetch_add(&counted_drops().page, 1, __ATOMIC_SEQ_CST);
        if (what == DropCaches::all) __atomic_fetch_add(&counted_drops().slab, 1, __ATOMIC_SEQ_CST);
        return {};
    }
    return fail(system_error(
        errno, std::string(kPath) + ": caches cannot be dropped; run as root or with --drop-caches none"));
}

}  // namespace tierfs::iobench
