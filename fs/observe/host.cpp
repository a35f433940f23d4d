#include "fs/observe/host.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>
#include <sstream>

#include "fs/control/mountinfo.hpp"
#include "fs/gds/block_devices.hpp"
#include "fs/gds/pci.hpp"

namespace tierfs {
namespace {

using gds::HostFiles;

std::optional<std::uint64_t> count_in(const HostFiles& files, const std::string& path) {
    const auto number = files.number(path);
    return number && *number >= 0 ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

/// What follows `name` in a line of a file of /proc; empty when there is no such line.
std::string value_of(const HostFiles& files, const std::string& path, const std::string& name) {
    std::istringstream lines(files.text(path).value_or(""));
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(name)) continue;
        const auto begin = line.find_first_not_of(" \t", name.size());
        return begin == std::string::npos ? std::string() : line.substr(begin);
    }
    return {};
}

/// The soft limit of a process ("self" too); none: unlimited, or not to be told.
std::optional<std::uint64_t> limit_of(const HostFiles& files, const std::string& pid,
                                      const std::string& name) {
    const auto text = value_of(files, "/proc/" + pid + "/limits", name);
    std::uint64_t limit = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), limit);
    return parsed.ec == std::errc{} ? std::optional(limit) : std::nullopt;
}

bool may(const HostFiles& files, unsigned capability) {
    const auto text = value_of(files, "/proc/self/status", "CapEff:");
    std::uint64_t bits = 0;
    std::from_chars(text.data(), text.data() + text.size(), bits, 16);
    return (bits >> capability & 1U) != 0;
}

/// "mq-deadline [none]": the one in brackets.
std::string chosen(const std::string& line) {
    const auto open = line.find('[');
    const auto close = line.find(']');
    return open != std::string::npos && close > open ? line.substr(open + 1, close - open - 1)
                                                     : std::string();
}

/// "0-3,8": the numbers. At most as many as Linux has processors.
std::set<unsigned> numbers_of(const std::string& list) {
    constexpr unsigned kMost = 8192;
    std::set<unsigned> numbers;
    std::istringstream parts(list);
    for (std::string part; std::getline(parts, part, ',');) {
        unsigned first = 0, last = 0;
        const int read = std::sscanf(part.c_str(), "%u-%u", &first, &last);
        if (read < 1) continue;
        for (unsigned number = first; number <= (read == 2 ? last : first) && number < kMost; ++number)
            numbers.insert(number);
    }
    return numbers;
}

/// Whether a process may run on none of the processors of a NUMA node that has some.
bool is_far(const HostFiles& files, std::uint64_t pid, unsigned node) {
    const auto near = numbers_of(
        files.text("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist").value_or(""));
    const auto allowed =
        numbers_of(value_of(files, "/proc/" + std::to_string(pid) + "/status", "Cpus_allowed_list:"));
    return !near.empty() && !allowed.empty() &&
           std::none_of(near.begin(), near.end(), [&](unsigned one) { return allowed.contains(one); });
}

std::string link_text(const std::string& speed, std::optional<std::int64_t> width) {
    if (speed.empty() || !width) return {};
    return speed + ", " + std::to_string(*width) + (*width == 1 ? " lane" : " lanes");
}

double gigatransfers(const std::string& speed) {
    double value = 0;
    std::from_chars(speed.data(), speed.data() + speed.size(), value);
    return value;
}

/// After the line code: 8 of 10 bits up to PCIe 2, 128 of 130 from there on.
double link_bytes_per_s(const std::string& speed, std::optional<std::int64_t> width) {
    const double transfers = gigatransfers(speed) * 1e9;
    return transfers / 8 * (transfers < 8e9 ? 0.8 : 128.0 / 130) * static_cast<double>(width.value_or(0));
}

Host::Controller look_at_controller(const HostFiles& files, const gds::Controller& found, std::uint64_t pid,
                                    const HostSources& sources) {
    Host::Controller controller;
    controller.name = found.name;
    controller.state = files.text("/sys/class/nvme/" + found.name + "/state").value_or("");
    controller.health = sources.health(found.name);
    if (found.pci_path.empty()) return controller;
    const auto pci = gds::look_at_pci(files, found.pci_path);
    controller.link = link_text(pci.speed, pci.width);
    controller.fastest_link = link_text(pci.fastest, pci.widest);
    controller.link_bytes_per_s = link_bytes_per_s(pci.speed, pci.width);
    controller.link_degraded =
        !controller.link.empty() && !controller.fastest_link.empty() &&
        (*pci.width < *pci.widest || gigatransfers(pci.speed) < gigatransfers(pci.fastest));
    if (pci.numa_node) {
        controller.numa_node = static_cast<unsigned>(*pci.numa_node);
        controller.daemon_is_far = is_far(files, pid, *controller.numa_node);
    }
    return controller;
}

void look_below(const HostFiles& files, unsigned major, unsigned minor, std::uint64_t pid,
                const HostSources& sources, Host::Device& device) {
    const auto below = gds::walk_devices(files, major, minor);
    if (below.empty()) return;
    device.scheduler = chosen(below.front().scheduler);
    std::set<std::string> seen;
    for (const auto& one : below) {
        if (one.kind == gds::DeviceKind::md && device.raid.empty()) {
            device.raid = one.name;
            device.raid_level = one.detail;
        }
        if (!device.rotational && one.kind != gds::DeviceKind::partition) {
            if (const auto turns = files.number(one.path + "/queue/rotational"))
                device.rotational = *turns != 0;
        }
        for (const auto& found : one.controllers) {
            if (seen.insert(found.name).second)
                device.controllers.push_back(look_at_controller(files, found, pid, sources));
        }
    }
}

Host::Device look_at_device(const HostFiles& files, const std::string& path, std::uint64_t pid,
                            const HostSources& sources) {
    Host::Device device;
    device.path = path;
    device.room = look_at_cache_room(path, 0, 0);
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return device;
    const unsigned major = major(found.st_dev), minor = minor(found.st_dev);
    const MountEntry* holds = nullptr;
    const auto mounts = parse_mountinfo(files.text("/proc/self/mountinfo").value_or(""));
    for (const auto& mount : mounts) {  // the same file system may be mounted in several places
        const bool above =
            path == mount.mountpoint || mount.mountpoint == "/" || path.starts_with(mount.mountpoint + "/");
        if (mount.major != major || mount.minor != minor || !above) continue;
        if (holds == nullptr || mount.mountpoint.size() >= holds->mountpoint.size()) holds = &mount;
    }
    if (holds != nullptr) {
        device.mountpoint = holds->mountpoint;
        device.mount_options = holds->options;
    }
    look_below(files, major, minor, pid, sources, device);
    return device;
}

unsigned count_nodes(const HostFiles& files) {
    unsigned nodes = 0;
    while (files.exists("/sys/devices/system/node/node" + std::to_string(nodes))) ++nodes;
    return nodes == 0 ? 1 : nodes;
}

void look_at_kernel(const HostFiles& files, Host& host) {
    constexpr unsigned kIpcLock = 14, kSysAdmin = 21;  // linux/capability.h
    utsname kernel{};
    if (::uname(&kernel) == 0) std::sscanf(kernel.release, "%d.%d", &host.kernel_major, &host.kernel_minor);
    if (!may(files, kIpcLock)) host.locked_bytes = limit_of(files, "self", "Max locked memory");
    if (const auto disabled = files.number("/proc/sys/kernel/io_uring_disabled")) {
        // 1: for all but those with CAP_SYS_ADMIN or in kernel.io_uring_group; 2: for all.
        if (*disabled >= 2 || (*disabled == 1 && !may(files, kSysAdmin)))
            host.io_uring_disabled = static_cast<int>(*disabled);
    }
}

}  // namespace

std::map<std::string, std::uint64_t> cache_device_reads(const Snapshot& snapshot,
                                                        const HostSources& sources) {
    constexpr std::uint64_t kSector = 512;  // of these counts, whatever the device has
    const HostFiles files(sources.root);
    std::map<std::string, std::uint64_t> reads;
    for (const auto& one : snapshot.devices) {
        struct stat found {};
        if (::stat(one.path.c_str(), &found) != 0) continue;
        const auto number = std::to_string(major(found.st_dev)) + ":" + std::to_string(minor(found.st_dev));
        std::istringstream counts(files.text("/sys/dev/block/" + number + "/stat").value_or(""));
        std::uint64_t requests = 0, merged = 0, sectors = 0;
        if (counts >> requests >> merged >> sectors) reads[one.path] = sectors * kSector;
    }
    return reads;
}

Host look_at_host(const std::string& device, const Snapshot& snapshot, const HostSources& sources) {
    const HostFiles files(sources.root);
    Host host;
    host.read_ahead_kib = count_in(files, "/sys/class/bdi/" + device + "/read_ahead_kb");
    const auto colon = device.find(':');
    if (colon != std::string::npos)
        host.kernel_waiting =
            count_in(files, "/sys/fs/fuse/connections/" + device.substr(colon + 1) + "/waiting");
    host.open_files = limit_of(files, std::to_string(snapshot.pid), "Max open files");
    host.numa_nodes = count_nodes(files);
    host.nvme_controllers = static_cast<unsigned>(files.list("/sys/class/nvme").size());
    look_at_kernel(files, host);
    for (const auto& one : snapshot.devices)
        host.devices.push_back(look_at_device(files, one.path, snapshot.pid, sources));
    return host;
}

}  // namespace tierfs
