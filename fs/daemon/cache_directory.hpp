// The cache folder of a mount: the folder of its source on the cache device, or a scratch directory.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "config/settings.hpp"
#include "fs/daemon/folder_locks.hpp"

namespace tierfs {

/// A folder that this mount alone uses, as long as the lock is held (flock on the file "lock" in it: the
/// kernel lets go of it however the processes end). Plain movable value.
struct LockedFolder {
    std::filesystem::path path;
    std::shared_ptr<const void> lock;

    /// Makes `parent`/NAME with mode 0700 and locks it, where NAME comes from the identity of the source;
    /// writes what it is into the text file "source". `key` names the setting in messages. EBUSY with the pid
    /// when another mount has it; a mount that is just ending is waited for, a few seconds.
    static Result<LockedFolder> open(const std::filesystem::path& parent, const std::string& identity,
                                     const std::string& key, FolderLocks& locks);
};

/// A directory for the index of a mount without a device: /var/cache/tierfs/mount-PID for root, else
/// ~/.cache/tierfs/mount-PID. Removed by the destructor; those that a killed process left are swept when
/// the next is made.
class ScratchDirectory {
  public:
    static Result<ScratchDirectory> make(const std::filesystem::path& base);
    ScratchDirectory() = default;
    ScratchDirectory(ScratchDirectory&& other) noexcept;
    ScratchDirectory& operator=(ScratchDirectory&& other) noexcept;
    ~ScratchDirectory();

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
    FileDescriptor lock_;
};

/// /var/cache/tierfs, $XDG_CACHE_HOME/tierfs or ~/.cache/tierfs; /tmp/tierfs-cache-UID when there is no home.
std::filesystem::path user_cache_directory();

/// The log of a mount that runs in the background: /var/log/tierfs/NAME.log for root, else
/// user_cache_directory()/NAME.log, where NAME is the mount point with '-' for '/' (and "\x2d" for '-').
/// Its folder is made; empty when that is impossible.
std::string default_log_file(const std::string& mountpoint);

}  // namespace tierfs
