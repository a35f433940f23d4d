#include "fs/insight/host.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace tierfs {
namespace {

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
    std::ifstream file(path);
    std::uint64_t value = 0;
    return file >> value ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> limit_of_descriptors(std::uint64_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/limits");
    for (std::string line; std::getline(file, line);) {
        unsigned long long soft = 0;
        if (std::sscanf(line.c_str(), "Max open files %llu", &soft) == 1) return soft;
    }
    return std::nullopt;
}

/// "mq-deadline [none]": the one in brackets.
std::string chosen(const std::string& line) {
    const auto open = line.find('[');
    const auto close = line.find(']');
    return open != std::string::npos && close > open ? line.substr(open + 1, close - open - 1)
                                                     : std::string();
}

Host::Device look_at_device(const std::string& path) {
    Host::Device device{path, {}, {}};
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return device;
    const auto number = std::to_string(major(found.st_dev)) + ":" + std::to_string(minor(found.st_dev));
    std::error_code error;
    for (const char* queue : {"/queue", "/../queue"}) {  // of a disk, and of a partition's disk
        const auto folder = "/sys/dev/block/" + number + queue;
        if (!std::filesystem::exists(folder, error)) continue;
        device.scheduler = chosen(first_line(folder + "/scheduler"));
        if (const auto turns = number_in(folder + "/rotational")) device.rotational = *turns != 0;
        break;
    }
    return device;
}

unsigned count_nodes() {
    unsigned nodes = 0;
    std::error_code error;
    while (std::filesystem::exists("/sys/devices/system/node/node" + std::to_string(nodes), error)) ++nodes;
    return nodes == 0 ? 1 : nodes;
}

}  // namespace

Host look_at_host(const std::string& device, const Snapshot& snapshot) {
    Host host;
    host.read_ahead_kib = number_in("/sys/class/bdi/" + device + "/read_ahead_kb");
    const auto colon = device.find(':');
    if (colon != std::string::npos)
        host.kernel_waiting = number_in("/sys/fs/fuse/connections/" + device.substr(colon + 1) + "/waiting");
    host.open_files = limit_of_descriptors(snapshot.pid);
    utsname kernel{};
    if (::uname(&kernel) == 0) std::sscanf(kernel.release, "%d.%d", &host.kernel_major, &host.kernel_minor);
    host.numa_nodes = count_nodes();
    for (const auto& one : snapshot.devices) host.devices.push_back(look_at_device(one.path));
    return host;
}

}  // namespace tierfs
