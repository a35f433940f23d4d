// The supervisor process of a mount.
#pragma once

#include <filesystem>

#include "config/settings.hpp"
#include "fs/daemon/channel.hpp"
#include "fs/daemon/program_image.hpp"

namespace tierfs {

/// Forks the daemon, mounts when it is prepared, hands it /dev/fuse and holds that descriptor too, beside the
/// record of the connection (ConnectionRecord). When the daemon dies without having been asked to, it forks
/// another one, which takes the connection over: readers wait meanwhile. Where that is not possible (the
/// kernel, supervisor=off, restart.limit, an index that is lost) it closes the descriptor and takes the mount
/// away, so that readers get ENOTCONN at once and do not hang. A writable mount, which nobody takes over, it
/// leaves where it is, dead: who writes to a path there gets ENOTCONN, too, and writes nothing to the
/// directory below. The next start replaces it (mount_in_place.hpp).
///
/// Asked to by `tierfs reload`, it starts the program that lies on disk now, and when that one says that it
/// can serve, has the daemon end and this one take over. The supervisor itself stays what it is.
///
/// Runs in the calling process, which must have no threads (it forks), until the mount has ended. Tells the
/// launcher over `launcher` what became of the start; without one (foreground) failures go to standard error.
/// Returns the exit status: 0 after a clean end, 1 otherwise.
int run_supervisor(const Settings& settings, const MountRequest& request, Channel launcher);

}  // namespace tierfs
