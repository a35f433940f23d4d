// Finds the mount that a command is about.
#pragma once

#include <string>

#include "fs/control/mountinfo.hpp"

namespace tierfs {

/// The tierfs mount on that path, found through mountinfo: the mount itself is never asked. ENOENT when there
/// is none, with what is there instead.
Result<MountEntry> find_tierfs_mount(const std::string& path);

}  // namespace tierfs
