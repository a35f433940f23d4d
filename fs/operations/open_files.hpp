// Which files the kernel has open, and which of them it reads by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "config/mutex.hpp"
#include "fs/operations/profile.hpp"
#include "fs/session/backing_ids.hpp"
#include "tiering/index/index.hpp"
#include "tiering/store.hpp"

namespace tierfs {

struct PassthroughStatus {
    bool enabled = false;
    std::string reason;  ///< why not; empty when enabled
    std::uint64_t opens = 0, open_files = 0;
};

/// Counts opens by node, from OPEN to RELEASE, and decides how each is answered.
///
/// The kernel refuses (EIO) an open of a node in another mode, or with another backing id, than that which it
/// is open with. So the first open of a node decides, and those which come before its last RELEASE get the
/// same. Thread-safe; no lock is held while a file is looked for or registered.
class OpenFiles {
  public:
    explicit OpenFiles(MountProfile& profile) : profile_(profile) {}

    /// From now on files may be passed through. `ids` must outlive all opens.
    void allow(BackingIds& ids);
    /// The kernel or the settings do not let it be.
    void forbid(std::string reason);

    enum class Mode : std::uint8_t { cached, passthrough, no_opens };
    struct Answer {
        Mode mode = Mode::cached;  ///< no_opens: ENOSYS, and nothing is counted
        std::int32_t backing_id = 0;
    };
    using FindFile = std::function<std::optional<WholeFile>()>;
    /// Counts an open. `find` may be called, on this thread; it may wait for a disk.
    Answer open(NodeId node, const FileSizes& known, const FindFile& find);
    /// The end of an open that was answered with this mode.
    void close(NodeId node, Mode mode);

    [[nodiscard]] PassthroughStatus status() const;
    [[nodiscard]] std::uint64_t passed_through() const;

  private:
    /// What a node is open with. Taken out of the table before it is given up: that is a system call.
    struct File {
        std::uint64_t opens = 0;
        std::int32_t backing_id = 0;  ///< 0: cached
        std::shared_ptr<const void> pin;
    };
    [[nodiscard]] std::optional<Answer> join(NodeId node) TIERFS_REQUIRES(mutex_);
    File candidate(BackingIds& ids, const FindFile& find);
    static bool is_lasting(int code);

    MountProfile& profile_;
    mutable Mutex mutex_;
    BackingIds* ids_ TIERFS_GUARDED_BY(mutex_) = nullptr;
    std::string reason_ TIERFS_GUARDED_BY(mutex_) =
        "the mount is not initialised yet";  ///< why nothing is passed through; empty: it is
    std::unordered_map<NodeId, File> files_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t passed_through_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t opens_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs
