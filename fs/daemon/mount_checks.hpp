// Checks before anything is mounted.
#pragma once

#include <string>

#include "config/base/result.hpp"
#include "config/settings.hpp"

namespace tierfs {

/// The mount point exists, is an empty directory and no tierfs mount, or a dead one, which mount_in_place takes
/// away when the new one is ready; a directory as SOURCE lies neither
/// around nor inside the mount point, nvme.path and index.path (reading the mount would read itself, or the
/// cache would be part of the dataset), and no file of credentials that was chosen lies beneath the mount point; those
/// in a home there are left out, by the environment of this process. Returns the mount point without links. Errors say what to do.
Result<std::string> check_mount(const Settings& settings);

/// A tierfs mount is on settings.mountpoint now. EIO when not: it has ended already, and the log says why.
Result<void> check_mounted(const Settings& settings);

/// Whether one path is the other or lies beneath it; both absolute and without links.
bool is_within(const std::string& inner, const std::string& outer);

/// The directory of a SOURCE that is one ("/dir", "file:///dir" with its percent escapes decoded as by
/// open_origin), else empty.
std::string source_directory(const std::string& source);

}  // namespace tierfs
