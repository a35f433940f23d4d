#include "config/memory_plan.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

#include "config/units.hpp"

namespace tierfs {

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallestLimit = 96 * kMiB;

std::optional<std::uint64_t> number_in(const std::string& path) {
    std::ifstream file(path);
    std::string text;
    if (!(file >> text)) return std::nullopt;
    std::uint64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc()) return std::nullopt;  // "max"
    return value;
}

/// The smallest memory limit on the way from this process's cgroup up to the root; both versions of cgroups.
std::uint64_t cgroup_limit() {
    std::uint64_t limit = UINT64_MAX;
    std::ifstream membership("/proc/self/cgroup");
    for (std::string line; std::getline(membership, line);) {
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        std::string path = line.substr(second + 1);
        std::string root = "/sys/fs/cgroup";
        std::string file = "/memory.max";
        if (controllers.find("memory") != std::string::npos) {
            root += "/memory";
            file = "/memory.limit_in_bytes";
        } else if (!controllers.empty()) {
            continue;
        }
        for (;;) {
            if (const auto value = number_in(root + path + file)) limit = std::min(limit, *value);
            if (path.empty() || path == "/") break;
            path.resize(path.rfind('/'));
        }
        if (const auto value = number_in(root + file)) limit = std::min(limit, *value);
    }
    return limit;
}

}  // namespace

Result<MemoryPlan> MemoryPlan::divide(std::uint64_t limit, std::optional<std::uint64_t> ram_limit) {
    if (limit < kSmallestLimit) {
        return fail(ENOMEM, "memory.limit is " + format_size(limit) + "; tierfs needs at least " +
                                format_size(kSmallestLimit));
    }
    MemoryPlan plan;
    plan.limit = limit;
    // Measured: code, stacks, curl and the allocator's slack take about 40 MiB; more connections and threads
    // come with larger machines.
    plan.process = 44 * kMiB + std::min(limit / 25, 512 * kMiB);
    plan.index = std::clamp(limit / 16, 12 * kMiB, 256 * kMiB);
    plan.names = std::clamp(limit / 16, 6 * kMiB, 512 * kMiB);
    plan.data = (limit - plan.process - plan.index - plan.names) & ~(kMiB - 1);
    const std::uint64_t most = (plan.data / 4 * 3) & ~(kMiB - 1);
    plan.ram_tier = std::min(ram_limit.value_or(most), most);
    return plan;
}

std::uint64_t resident_memory() {
    std::ifstream status("/proc/self/status");
    std::uint64_t bytes = 0;
    for (std::string line; std::getline(status, line);) {
        if (!line.starts_with("RssAnon:") && !line.starts_with("RssShmem:") &&
            !line.starts_with("HugetlbPages:")) {
            continue;
        }
        std::istringstream fields(line.substr(line.find(':') + 1));
        std::uint64_t kilobytes = 0;
        fields >> kilobytes;
        bytes += kilobytes * 1024;
    }
    return bytes;
}

std::uint64_t default_memory_limit() {
    const auto physical = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                          static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t quarter = std::min(physical, cgroup_limit()) / 4;
    return std::clamp(quarter, kSmallestLimit, std::uint64_t{8} << 30);
}

}  // namespace tierfs
