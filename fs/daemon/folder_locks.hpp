// The locks that keep other mounts out of this one's folders, also while no daemon runs.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// Locks the file "lock" of a folder (flock(2)) and writes the process's id into it. EBUSY with the id of who
/// has it, when it does not come free within `patience`.
Result<FileDescriptor> lock_folder(const std::filesystem::path& folder, std::chrono::milliseconds patience);

/// Locks by folder. flock belongs to the open file, not to the process: the supervisor holds each of them
/// too, and hands them to the next daemon. Thread-safe; must outlive the locks that it gave.
class FolderLocks {
  public:
    /// Sends the supervisor a lock that was taken, or (descriptor -1) the name of one that was given up.
    using Tell = std::function<void(const std::string& folder, int descriptor)>;

    explicit FolderLocks(Tell tell = {}) : tell_(std::move(tell)) {}

    /// What the supervisor handed over.
    void hold(std::map<std::string, FileDescriptor> locks);

    /// A lock that was handed over, or a new one as lock_folder gives it: kept while the pointer lives.
    Result<std::shared_ptr<const void>> lock(const std::filesystem::path& folder,
                                             std::chrono::milliseconds patience);
    /// Gives up those that were handed over and nobody has asked for: of a device that is not there any more.
    void give_up_the_rest();

  private:
    FileDescriptor take_held(const std::filesystem::path& folder);
    void tell(const std::string& folder, int descriptor) const;

    Mutex mutex_;
    std::map<std::string, FileDescriptor> held_ TIERFS_GUARDED_BY(mutex_);
    const Tell tell_;
};

}  // namespace tierfs
