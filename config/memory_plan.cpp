#include "config/memory_plan.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "config/base/units.hpp"
#include "config/memory_sources.hpp"

namespace tierfs {
namespace {

constexpr std::uint64_t kSmallestLimit = 96 * kMiB;
/// ReadHeat and GhostTable 1.5 MiB; the chunk of what moves 1 MiB, and 1 MiB to read from.
constexpr std::uint64_t kNvmeTables = 4 * kMiB;
/// Of one device's writer: the library's 0.6 MiB, the largest object, and its compressed form.
constexpr std::uint64_t kCompression = 3 * kMiB;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> to_number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data()) return std::nullopt;
    return value;
}

/// "NAME:   123 kB" of a file in /proc, in bytes; nothing when the line is not there.
std::optional<std::uint64_t> kilobytes_of(const std::string& file, std::string_view name) {
    std::ifstream in(file);
    std::string line;
    while (std::getline(in, line)) {
        if (line.size() <= name.size() || line.compare(0, name.size(), name) != 0 || line[name.size()] != ':')
            continue;
        std::istringstream rest(line.substr(name.size() + 1));
        std::string value;
        rest >> value;
        const auto number = to_number(value);
        if (number && *number <= kUnlimited / 1024) return *number * 1024;
    }
    return std::nullopt;
}

/// The smallest limit in `file` from the group `path` up to `root`; "max" and unreadable files are no limit.
/// Above a container the group's own folder may be invisible, therefore missing folders are passed by.
std::uint64_t smallest_on_the_way_up(const std::filesystem::path& root, const std::string& path,
                                     const char* file) {
    std::uint64_t smallest = kUnlimited;
    std::filesystem::path group = std::filesystem::path("/" + path).lexically_normal().relative_path();
    while (true) {
        std::ifstream in(root / group / file);
        std::string value;
        if (in >> value) {
            const auto number = to_number(value);
            if (number) smallest = std::min(smallest, *number);
        }
        if (group.empty()) return smallest;
        group = group.parent_path();
    }
}

/// Whether `list` ("cpu,memory") names the memory controller.
bool names_memory(const std::string& list) {
    std::istringstream in(list);
    std::string controller;
    while (std::getline(in, controller, ',')) {
        if (controller == "memory") return true;
    }
    return false;
}

std::uint64_t cgroup_limit(const MemoryRoots& roots) {
    std::uint64_t smallest = kUnlimited;
    std::ifstream in(roots.proc + "/self/cgroup");
    std::string line;
    while (std::getline(
        in, line)) {  // "0::/path" is v2, "4:cpu,memory:/path" is v1; both in the hybrid hierarchy
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty()) {
            smallest = std::min({smallest, smallest_on_the_way_up(roots.cgroup, path, "memory.max"),
                                 smallest_on_the_way_up(roots.cgroup + "/unified", path, "memory.max")});
        } else if (names_memory(controllers)) {
            smallest = std::min(
                smallest, smallest_on_the_way_up(roots.cgroup + "/memory", path, "memory.limit_in_bytes"));
        }
    }
    return smallest;
}

}  // namespace

Result<MemoryPlan> MemoryPlan::divide(std::uint64_t limit, std::optional<std::uint64_t> ram_limit,
                                      bool has_nvme, bool compresses) {
    if (limit < kSmallestLimit) {
        return fail(ENOMEM, "memory.limit: found " + format_size(limit) + "; the smallest that will do is " +
                                format_size_exact(kSmallestLimit));
    }
    MemoryPlan plan;
    plan.limit = limit;
    plan.process = std::min(48 * kMiB + limit / 25, 512 * kMiB);
    plan.index = std::clamp(limit / 16, 12 * kMiB, 256 * kMiB);
    plan.names = std::clamp(limit / 16, 6 * kMiB, 512 * kMiB);
    plan.tables = has_nvme ? kNvmeTables + (compresses ? kCompression : 0) : 0;
    plan.data = limit - plan.process - plan.index - plan.names - plan.tables;
    const std::uint64_t most = plan.data / 4 * 3 / kMiB * kMiB;
    plan.ram_tier = std::min(ram_limit.value_or(most), most);
    return plan;
}

std::uint64_t resident_memory(const MemoryRoots& roots) {
    const std::string status = roots.proc + "/self/status";
    std::uint64_t sum = 0;
    for (const char* name : {"RssAnon", "RssShmem", "HugetlbPages"})
        sum += kilobytes_of(status, name).value_or(0);
    return sum;
}

std::uint64_t default_memory_limit(const MemoryRoots& roots) {
    const std::uint64_t physical = kilobytes_of(roots.proc + "/meminfo", "MemTotal").value_or(kUnlimited);
    return std::min(std::min(physical, cgroup_limit(roots)) / 4, 8192 * kMiB);
}

std::uint64_t resident_memory() {
    return resident_memory(MemoryRoots{});
}

std::uint64_t default_memory_limit() {
    return default_memory_limit(MemoryRoots{});
}

}  // namespace tierfs
