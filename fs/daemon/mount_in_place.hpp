// Room on a mount point for a new mount: dead ones of tierfs are replaced, and one starter comes at a time.
#pragma once

#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "config/settings.hpp"
#include "fs/daemon/unmount.hpp"

namespace tierfs {

/// Takes the dead mounts of tierfs (pulse_of) that lie on top of a mount point out of the name space, lazily:
/// who has files open there keeps getting ENOTCONN. Returns how many; what lies below them, alive or of
/// another type, stays. Errors: one cannot be taken away.
Result<unsigned> take_dead_mounts(const std::string& mountpoint);

/// A mount that was made in the place of what was dead there.
struct MountInPlace {
    FuseMount mount;
    unsigned dead = 0;    ///< mounts that were there, dead
    FileDescriptor lock;  ///< of this user's starters; to be held until the others can see that it lives
};

/// Mounts as mount_fuse does, in the place of dead mounts of tierfs that are there: where the kernel can, at
/// no moment the directory below them is to be seen (mount_beneath). Waits some seconds for a mount that is
/// just ending, or cannot be asked whether it is. EBUSY: a mount of tierfs is there that lives; of starters
/// that come at once one mounts. Without a folder for the lock it goes on without. Before there are threads.
Result<MountInPlace> mount_in_place(const Settings& settings);

/// What is said of a mount point that has a mount already, with the source of that one.
std::string mounted_already(const std::string& mountpoint, const std::string& source);

}  // namespace tierfs
