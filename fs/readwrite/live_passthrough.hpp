// Files of a writable mount that the kernel reads and writes by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/dir/local_file_system.hpp"
#include "backends/origin/posix_origin.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/mutex.hpp"
#include "fs/readwrite/live_nodes.hpp"
#include "fs/session/backing_ids.hpp"

namespace tierfs {

/// Whether a file system of `type` is known to move a file's time of modification at the first store through
/// a mapping, also to a page that was read before: tmpfs does not. Pure.
bool tells_of_mappings(long type);

/// Why no file of a source is passed through; empty: nothing is against it so far. `wish`: the value of
/// writes.passthrough; `against`: PosixOrigin::against_passthrough; `type`: of the file system that a directory is on; 0: it
/// is none. Pure.
std::string against_live_passthrough(const std::string& wish, const std::string& against, long type);

/// Counts opens by node, from OPEN to RELEASE, and decides which are passed through.
///
/// The kernel refuses (EIO) an open of a node in another mode, or with another number, than that which it is
/// open with: the first open decides, and those which come before the last RELEASE get the same.
///
/// A mapping outlives the descriptor that it was made by, and nobody tells of what is written through it. So
/// a node that was passed through and open for reading and writing is taken to be written to until a lease
/// (F_SETLEASE of fcntl(2)) says that nobody has the origin's file open for writing any more. Then, if the
/// file was changed at all, or where that cannot be told (tells_of_mappings), its time of change is moved on:
/// what may have been read meanwhile, of a version that said nothing of the latest bytes, is of an old
/// version from then on. A file that no lease can be had of (its file system has none; another's file, and no
/// CAP_LEASE) is not passed through to those who may map it so, unless others have made it so already; then
/// it is watched until the kernel forgets the node, which a mapping keeps it from.
///
/// The kernel opens the origin's file for each open of its own, with the flags of whoever opened it, and
/// acts there with the credentials of the thread that registered it, whoever opens it later: so that one lacks
/// CAP_FSETID and CAP_SYS_RESOURCE, and is not root where that gives access to reserved blocks
/// (StandingScope). Files with set-user-ID and set-group-ID bits are left to the daemon, which knows who
/// writes; when a file gets them later, the kernel asks for them to be cleared before it writes
/// (live_attributes.cpp). Thread-safe; no lock is held during system calls.
class LivePassthrough {
  public:
    /// `is_asked_for`: on file systems of any kind, and whatever the flags: the kernel holds on to O_APPEND
    /// and O_DIRECT of an open, also when F_SETFL of fcntl(2) takes them off, as dd does before an odd last
    /// block.
    /// `record`: is told how many files are watched that nobody has open; may be null.
    explicit LivePassthrough(bool is_asked_for, LiveRecord* record = nullptr)
        : is_asked_for_(is_asked_for), record_(record) {}

    /// From now on files may be passed through, of the device that `root` is on and of those that are judged
    /// like it. `ids` must outlive all opens. Ignores SIGIO, which breaks of leases send.
    void allow(BackingIds& ids, std::uint64_t root_device);
    void forbid(std::string reason);

    /// Counts an open; `flags` as of open(2). `is_wanted`: passing it through makes sense, if the node is not
    /// open yet. Returns the number that the kernel registered; 0: the daemon reads and writes.
    std::int32_t open(LiveNode& node, PosixFile& file, int flags, bool is_wanted);
    /// Counts an open of an earlier daemon, whose answer was `backing_id`.
    void restore(LiveNode& node, PosixFile& file, std::int32_t backing_id);
    /// The end of an open that was counted. The descriptors that came with it are closed before, but for those of a file
    /// that says otherwise (PosixFile::looks_itself).
    void close(const LiveNodePtr& node);

    /// Whether somebody may write to the node and nobody tells. Costs nothing for most nodes.
    bool may_be_mapped(LiveNode& node);
    /// To be called about once a second: looks again at nodes that are mapped still.
    void tick();

    [[nodiscard]] PassthroughStatus status() const;

  private:
    /// A file that was registered, or 0.
    std::int32_t add(PosixFile& file, std::uint64_t device);
    [[nodiscard]] BackingIds* ids() const;
    bool is_judged_well(int file, std::uint64_t device) const;

    const bool is_asked_for_;
    LiveRecord* const record_;
    mutable Mutex mutex_;
    BackingIds* ids_ TIERFS_GUARDED_BY(mutex_) = nullptr;
    std::uint64_t root_device_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::string reason_ TIERFS_GUARDED_BY(mutex_) = "the mount is not initialised yet";
    std::uint64_t opens_ TIERFS_GUARDED_BY(mutex_) = 0, files_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::vector<LiveNodePtr> mapped_ TIERFS_GUARDED_BY(mutex_);  ///< beyond their last close
};

}  // namespace tierfs
