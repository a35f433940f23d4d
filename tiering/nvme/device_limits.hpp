// How nvme.limit is divided among devices. Internal to tiering/nvme and its tests. All numbers are bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "config/result.hpp"

namespace tierfs {

/// Below this a device is not worth its files.
inline constexpr std::uint64_t kLeastDeviceLimit = 16 << 20;

/// What the file system of a folder could give it: its free space and what the folder holds.
Result<std::uint64_t> capacity_of(const std::filesystem::path& folder);

/// The least for each, the rest of `limit` in proportion to the capacities. `limit` 0: 80 % of each capacity.
/// EINVAL: a device would get less than the least.
Result<std::vector<std::uint64_t>> divide_limit(std::uint64_t limit,
                                                const std::vector<std::uint64_t>& capacities);

}  // namespace tierfs
