// Files that the kernel has open, and the ones among them that it reads by itself (passthrough).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "config/base/mutex.hpp"
#include "fs/readonly/profile.hpp"
#include "fs/session/backing_ids.hpp"
#include "tiering/index/index.hpp"
#include "tiering/store/store.hpp"

namespace tierfs {

/// Counts opens by node, from OPEN to RELEASE, and decides how each is answered.
///
/// The kernel refuses (EIO) an open of a node in another mode, or with another backing id, than that which it
/// is open with. So the first open of a node decides, and those which come before its last RELEASE get the
/// same. Thread-safe; no lock is held while a file is looked for or registered.
class OpenFiles {
  public:
    /// `record`: where opens are kept for the next daemon. May be null; else it must outlive this.
    explicit OpenFiles(MountProfile& profile, ConnectionRecord* record = nullptr)
        : profile_(profile), record_(record) {}

    /// From now on files may be passed through. `ids` must outlive all opens.
    void allow(BackingIds& ids);
    /// The kernel or the settings do not let it be.
    void forbid(std::string reason);

    enum class Mode : std::uint8_t { cached, passthrough, no_opens, too_many };
    struct Answer {
        Mode mode = Mode::cached;  ///< no_opens: ENOSYS, too_many: ENFILE; then nothing is counted
        std::int32_t backing_id = 0;
        std::uint64_t ticket = 0;  ///< of the record; 0: there is none
        /// What close() wants.
        [[nodiscard]] std::uint64_t handle() const { return ticket << 2U | static_cast<std::uint64_t>(mode); }
    };
    using FindFile = std::function<std::optional<WholeFile>()>;
    /// Counts an open. `find` may be called, on this thread; it may wait for a disk. `unique`: the request's
    /// number; one that is sent again (kResent) and that the record has is answered as it was, and not
    /// counted twice.
    Answer open(NodeId node, const FileSizes& known, const FindFile& find, std::uint64_t unique = 0);
    /// The end of an open that was answered with this handle; of one that has ended already, nothing.
    void close(NodeId node, std::uint64_t handle);

    /// Keeps the file of a node that is passed through, of so many bytes, while the kernel has it open.
    using HoldFile = std::function<std::shared_ptr<const void>(NodeId, std::uint64_t bytes)>;
    /// Takes in the opens that the record has, once, before the first request.
    void take_over(const HoldFile& hold);

    [[nodiscard]] PassthroughStatus status() const;
    [[nodiscard]] std::uint64_t passed_through() const;

  private:
    /// What a node is open with. Taken out of the table before it is given up: that is a system call.
    struct File {
        std::uint64_t opens = 0;
        std::int32_t backing_id = 0;  ///< 0: cached
        std::uint64_t bytes = 0;      ///< when it is passed through
        std::shared_ptr<const void> pin;
    };
    [[nodiscard]] std::optional<Answer> join(NodeId node, std::uint64_t unique) TIERFS_REQUIRES(mutex_);
    [[nodiscard]] std::optional<Answer> answered_before(std::uint64_t unique) const TIERFS_REQUIRES(mutex_);
    /// False: too many are open.
    [[nodiscard]] bool record(Answer& answer, NodeId node, std::uint64_t unique, std::uint64_t bytes)
        TIERFS_REQUIRES(mutex_);
    File candidate(BackingIds& ids, const FindFile& find);
    static bool is_lasting(int code);

    MountProfile& profile_;
    ConnectionRecord* const record_;  ///< its opens: under the lock
    mutable Mutex mutex_;
    BackingIds* ids_ TIERFS_GUARDED_BY(mutex_) = nullptr;
    std::string reason_ TIERFS_GUARDED_BY(mutex_) =
        "the mount is not initialised yet";  ///< why nothing is passed through; empty: it is
    std::unordered_map<NodeId, File> files_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t passed_through_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t opens_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs
