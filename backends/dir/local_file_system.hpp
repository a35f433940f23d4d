// The file systems of this machine's own disks and memory.
#pragma once

#include <linux/magic.h>

#include <algorithm>
#include <array>

namespace tierfs {

/// `type`: f_type of statfs(2). Their files change on this machine alone, by its clock, and they know users by
/// their numbers; they have nothing to say when a file is closed, and are not stacked on others. Pure.
inline bool is_local_file_system(long type) {
    constexpr std::array<long, 5> kLocal{EXT4_SUPER_MAGIC, 0x58465342 /* XFS */, BTRFS_SUPER_MAGIC,
                                         F2FS_SUPER_MAGIC, TMPFS_MAGIC};
    return std::find(kLocal.begin(), kLocal.end(), type) != kLocal.end();
}

}  // namespace tierfs
