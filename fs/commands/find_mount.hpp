// Finds the mount that a command is about.
#pragma once

#include <string>

#include "fs/control/control.hpp"
#include "fs/control/mountinfo.hpp"

namespace tierfs {

/// The tierfs mount on that path, found through mountinfo: the mount itself is never asked. ENOENT when there
/// is none, with what is there instead.
Result<MountEntry> find_tierfs_mount(const std::string& path);

/// Where that mount is asked: the socket of this user, and for root that of who mounted. EACCES: it is
/// another user's. ENOENT: root finds nobody of that user who serves it.
Result<ControlAddress> control_of(const MountEntry& mount);

/// Why that mount did not answer: that it is dead and what ends that (ENOTCONN), else `error`. For all who
/// asked in vain; a mount that refused, or is only slow, is not looked at.
Error unanswered(const MountEntry& mount, Error error);

/// A path in a mount.
struct PlaceInMount {
    MountEntry mount;
    std::string path;  ///< relative to the mount; "" is its root
};
/// The tierfs mount that a path lies in, and where. By name: links in the mount are not followed, since it is
/// not asked. ENOENT: it lies in none.
Result<PlaceInMount> find_place(const std::vector<MountEntry>& mounts, const std::string& path);

}  // namespace tierfs
