// The mount and the block device below a path.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/iobench/run/result_file.hpp"

namespace tierfs::iobench {

/// A line of /proc/self/mountinfo (proc(5)).
struct MountInfo {
    std::string device;  ///< "8:1"; "0:52" of a file system without a block device of its own
    std::string point, type, source;
    std::string options;  ///< of the mount and then those of the file system that are not among them

    bool operator==(const MountInfo&) const = default;
};

/// Lines that are no such lines are left out.
std::vector<MountInfo> parse_mountinfo(std::string_view text);

/// The last of the longest mount points above `path`, an absolute one: later mounts cover earlier ones.
const MountInfo* mount_of(const std::vector<MountInfo>& mounts, const std::string& path);

/// Name and model from sysfs, of a partition those of its disk as model; of a loop device the file behind it.
/// None for a file system that has no block device.
std::optional<ResultDevice> device_of(const MountInfo& mount, const std::string& sys = "/sys");

/// Everything of a target that the system tells; no daemon, no peak. `device_number`: MountInfo::device.
struct Place {
    ResultTarget target;
    std::string device_number;
};
Place describe(const std::string& name, const std::string& path);

}  // namespace tierfs::iobench
