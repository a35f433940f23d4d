#include "tiering/nvme/device_limits.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <numeric>
#include <system_error>

#include "config/base/fault_point.hpp"
#include "config/base/units.hpp"

namespace tierfs {
namespace {

namespace fs = std::filesystem;

std::uint64_t held_bytes(const fs::path& folder) {
    std::uint64_t bytes = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        struct stat found {};
        if (::lstat(it->path().c_str(), &found) == 0 && S_ISREG(found.st_mode)) {
            bytes += static_cast<std::uint64_t>(found.st_blocks) * 512;
        }
    }
    return bytes;
}

tl::unexpected<Error> too_small(std::uint64_t limit, std::size_t devices) {
    return fail(EINVAL, "nvme.limit is " + format_size(limit) + ": at least " +
                            format_size(kLeastDeviceLimit) + " is needed" +
                            (devices > 1 ? " for each of " + std::to_string(devices) + " devices" : "") +
                            "; give another nvme.path or a larger limit");
}

}  // namespace

Result<std::uint64_t> capacity_of(const fs::path& folder) {
    struct statvfs device {};
    if (TIERFS_FAULT_CALL("cache.space", ::statvfs(folder.c_str(), &device)) != 0)
        return fail(system_error(errno, folder.string()));
    return std::uint64_t{device.f_bavail} * device.f_frsize + held_bytes(folder);
}

Result<std::vector<std::uint64_t>> divide_limit(std::uint64_t limit,
                                                const std::vector<std::uint64_t>& capacities) {
    std::vector<std::uint64_t> parts(capacities.size());
    if (limit == 0) {
        std::transform(capacities.begin(), capacities.end(), parts.begin(),
                       [](std::uint64_t capacity) { return std::max(capacity / 5 * 4, kLeastDeviceLimit); });
        return parts;
    }
    const std::uint64_t least = kLeastDeviceLimit * capacities.size();
    if (limit < least) return too_small(limit, parts.size());
    const auto total = static_cast<double>(std::accumulate(capacities.begin(), capacities.end(), 0.0));
    std::uint64_t left = limit - least;
    for (std::size_t at = 0; at < parts.size(); ++at) {
        const double share =
            total > 0 ? static_cast<double>(capacities[at]) / total : 1.0 / static_cast<double>(parts.size());
        const auto more = static_cast<std::uint64_t>(static_cast<double>(limit - least) * share);
        parts[at] = kLeastDeviceLimit + (at + 1 < parts.size() ? std::min(more, left) : left);
        left -= std::min(more, left);
    }
    return parts;
}

std::uint64_t limit_beside_others(std::uint64_t most, std::uint64_t keep_free, std::uint64_t used,
                                  std::uint64_t available, std::uint64_t now, std::uint64_t step) {
    const std::uint64_t could = used + available;
    const std::uint64_t may = std::min(most, could - std::min(could, keep_free));
    return may > now && may < most && may - now < step ? now : may;
}

}  // namespace tierfs
