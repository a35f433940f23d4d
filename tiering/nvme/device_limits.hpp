// Limits of the devices: their shares of nvme.limit. Internal to tiering/nvme. All numbers are bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs {

/// Below this a device is not worth its files.
inline constexpr std::uint64_t kLeastDeviceLimit = 16 << 20;

/// What the file system of a folder could give it: its free space and what the folder holds.
Result<std::uint64_t> capacity_of(const std::filesystem::path& folder);

/// The least for each, the rest of `limit` in proportion to the capacities. `limit` 0: 80 % of each capacity.
/// EINVAL: a device would get less than the least.
Result<std::vector<std::uint64_t>> divide_limit(std::uint64_t limit,
                                                const std::vector<std::uint64_t>& capacities);

/// What a device that holds `used` may hold, so that `keep_free` of its file system stay free, of which
/// `available` are free: at most `most`. While others fill the file system it becomes less at once. More it
/// becomes in steps of `step`, so that who comes and goes there does not make the tier do the same; `now` is
/// what it is at present.
std::uint64_t limit_beside_others(std::uint64_t most, std::uint64_t keep_free, std::uint64_t used,
                                  std::uint64_t available, std::uint64_t now, std::uint64_t step);

}  // namespace tierfs
