#include "bench/iobench/run/host.hpp"

#include <fcntl.h>
#include <mntent.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "bench/iobench/data/files.hpp"

namespace tierfs::iobench {

namespace {

struct Mount {
    std::string type = "unknown", source = "unknown", point;
};

bool is_below(const std::string& path, const std::string& directory) {
    if (directory == "/") return true;
    return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

/// The last of the longest mount points above `path`: later mounts cover earlier ones.
Mount mount_of(const std::string& path) {
    Mount best;
    const std::unique_ptr<FILE, int (*)(FILE*)> table(setmntent("/proc/self/mounts", "r"), endmntent);
    if (!table) return best;
    while (const mntent* entry = getmntent(table.get())) {
        if (!is_below(path, entry->mnt_dir) || std::string(entry->mnt_dir).size() < best.point.size())
            continue;
        best = {entry->mnt_type, entry->mnt_fsname, entry->mnt_dir};
    }
    return best;
}

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

}  // namespace

nlohmann::ordered_json host_facts(const std::string& path) {
    utsname system{};
    uname(&system);
    double load[3] = {};
    if (getloadavg(load, 3) != 3) load[0] = -1;
    const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
    const Mount mount = mount_of(real ? real.get() : path);
    const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
    return {{"kernel", std::string(system.sysname) + " " + system.release},
            {"machine", system.machine},
            {"cpu", processor_name()},
            {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
            {"memory_bytes", pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))},
            {"load_average_1m", load[0]},
            {"fs_type", mount.type},
            {"fs_source", mount.source},
            {"mount_point", mount.point}};
}

Result<void> drop_caches(DropCaches what) {
    if (what == DropCaches::none) return {};
    constexpr const char* kPath = "/proc/sys/vm/drop_caches";
    sync();
    const Fd file(::open(kPath, O_WRONLY | O_CLOEXEC));
    if (file.get() >= 0 && ::write(file.get(), what == DropCaches::page ? "1" : "3", 1) == 1) return {};
    return fail(system_error(
        errno, std::string(kPath) + ": caches cannot be dropped; run as root or with --drop-caches none"));
}

}  // namespace tierfs::iobench
