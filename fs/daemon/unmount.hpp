// Mounting and unmounting of a FUSE mount, as root or through fusermount3.
#pragma once

#include <chrono>
#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "config/settings.hpp"

namespace tierfs {

/// A mount that was made: its /dev/fuse descriptor and its device ("0:52").
struct FuseMount {
    FileDescriptor device;
    std::string number;
};

/// Mounts settings.source on settings.mountpoint (type fuse.tierfs), through fusermount3 where this process must
/// not mount. Must be called before there are threads (libfuse forks). Errors: those of the mount system calls,
/// ELOOP (the path leads through a link by now), or what libfuse and fusermount3 said.
Result<FuseMount> mount_fuse(const Settings& settings);

/// The same beneath a mount that lies there, with the mount system calls that libfuse has none of: the
/// directory below is never to be seen. Root, Linux 6.5. `number` is still empty: the mount is covered.
/// Errors: nothing has changed.
Result<FuseMount> mount_beneath(const Settings& settings);

/// The mount options of settings, as libfuse takes them after -o.
std::string mount_options(const Settings& settings);

/// Unmounts `mountpoint` if the mount on top of it is the one with that device number ("0:52"); it no longer
/// being there is success. EBUSY unless `lazy`, which takes it out of the name space at once. Never blocks on
/// the mount. Starts fusermount3 (posix_spawn: safe with threads) when umount2 is not allowed.
Result<void> unmount_fuse(const std::string& mountpoint, const std::string& device, bool lazy);

/// Whether the mount with that device number is on top of `mountpoint`; also when that cannot be found out.
bool is_mounted(const std::string& mountpoint, const std::string& device);

/// Tries for that long to unmount as usual, then lazily.
Result<void> unmount_with_grace(const std::string& mountpoint, const std::string& device,
                                std::chrono::milliseconds grace);

/// Whether the mount is still there, somewhere: its connection has not ended.
bool is_connected(const FuseMount& mount);

/// Ends the connection of a mount whose daemon cannot be ended: whoever waits for an answer gets an error
/// now, and can be killed. `device` is a descriptor of /dev/fuse that belongs to it: of a mount that has
/// ended already nothing is done, since its number may be that of another one by now. Never blocks on the
/// mount. Errors: those of /sys/fs/fuse/connections, which may not be there (a container).
Result<void> abort_connection(const FuseMount& mount);

/// Sets the largest read-ahead of the mount, in KiB; best effort (root only).
void set_read_ahead(const std::string& device, unsigned kibibytes);

}  // namespace tierfs
