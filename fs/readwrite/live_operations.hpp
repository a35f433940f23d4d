// Answers to FUSE requests on a writable mount, by kind: live_attributes.cpp, live_names.cpp (what makes,
// removes and renames), live_directories.cpp, live_data.cpp (open, read, write, sync),
// live_lock_requests.cpp.
#pragma once

#define FUSE_USE_VERSION 314
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "backends/origin/posix_origin.hpp"
#include "config/base/mutex.hpp"
#include "config/settings.hpp"
#include "fs/observe/trace/trace.hpp"
#include "fs/readwrite/descriptor_shares.hpp"
#include "fs/readwrite/live_files.hpp"
#include "fs/readwrite/live_locks.hpp"
#include "fs/readwrite/live_nodes.hpp"
#include "fs/readwrite/live_request.hpp"
#include "fs/readwrite/privileges.hpp"

namespace tierfs {

/// The answers of one writable mount. Each request is answered on the thread that reads it, but for reads
/// that wait for the tiers and who waits for a lock: the origin is asked with blocking calls. Permissions are
/// the kernel's to check (default_permissions). Thread-safe. `origin` and `store` must outlive it and its
/// requests.
class LiveOperations {
  public:
    /// `identity`: Origin::identity. `mount_device`: "MAJOR:MINOR" of the mount. `record`: see LiveNodes and LiveFiles.
    /// ESTALE, EIO: the root cannot be asked.
    static Result<std::unique_ptr<LiveOperations>> open(PosixOrigin& origin, Store& store,
                                                        const std::string& identity, const Settings& settings,
                                                        std::string mount_device, LiveRecord* record);

    /// libfuse's table; its functions expect Session::user_of<LiveOperations>.
    static const fuse_lowlevel_ops& table();
    /// What needs no answer of ours: see SessionHandlers::at_once.
    static int at_once(std::uint32_t opcode);

    [[nodiscard]] PosixOrigin& origin() const { return origin_; }
    [[nodiscard]] LiveNodes& nodes() { return nodes_; }
    [[nodiscard]] LiveFiles& files() { return files_; }
    [[nodiscard]] LiveLocks& locks() { return locks_; }
    [[nodiscard]] Trace& trace() { return trace_; }
    [[nodiscard]] LastError& last_error() { return last_error_; }
    [[nodiscard]] Store& store() const { return store_; }
    /// That the root of the origin is on.
    [[nodiscard]] std::uint64_t device() const { return device_; }
    [[nodiscard]] std::uint64_t pack_max_object() const { return pack_max_object_; }

    /// How long the kernel may keep what it is told of a node's attributes; seconds. Asking may move a time
    /// of change (LivePassthrough): 0 for those that were known before.
    [[nodiscard]] double valid_s(LiveNode& node);
    /// The same of a node with these, which may be old already. Programs that run as somebody else are asked for
    /// each time, or who changes them at the origin would run there as that one until metadata.ttl has passed.
    [[nodiscard]] static double valid_s(double valid_s, const PosixAttributes& attributes) {
        return has_set_id(attributes.status.st_mode) ? 0 : std::max(0.0, valid_s - attributes.age_s);
    }
    [[nodiscard]] double absent_s() const { return absent_s_; }
    /// As stat(2) on the mount shows them.
    [[nodiscard]] struct stat shown(const PosixAttributes& attributes) const;
    [[nodiscard]] fuse_entry_param entry(LiveNode& node, const PosixAttributes& attributes);

    [[nodiscard]] DescriptorShares& shares() { return shares_; }
    [[nodiscard]] const std::string& mount_device() const { return mount_device_; }

    /// Open directories, by handle.
    std::uint64_t add_directory(PosixDirectoryPtr directory, DescriptorShares::Share share);
    PosixDirectoryPtr directory(std::uint64_t handle);
    /// The same of one that an earlier daemon had open: it is opened anew.
    Result<PosixDirectoryPtr> directory(std::uint64_t handle, NodeId node, std::uint32_t uid);
    /// Null: no daemon takes over from this one.
    [[nodiscard]] LiveRecord* record() const { return record_; }
    void remove_directory(std::uint64_t handle);

  private:
    LiveOperations(PosixOrigin& origin, Store& store, const std::string& identity, const Settings& settings,
                   std::string mount_device, const PosixAttributes& root, LiveRecord* record);

    struct OpenDirectory {
        PosixDirectoryPtr directory;
        DescriptorShares::Share share;
    };

    PosixOrigin& origin_;
    Store& store_;
    LiveRecord* const record_;
    DescriptorShares shares_;
    const std::string mount_device_;
    const std::uint64_t device_;  ///< of the root
    const double valid_s_, absent_s_;
    const std::uint64_t pack_max_object_;
    Trace trace_;
    LastError last_error_;
    LiveNodes nodes_;
    LiveFiles files_;
    LiveLocks locks_;
    Mutex mutex_;
    std::unordered_map<std::uint64_t, OpenDirectory> directories_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t next_
        TIERFS_GUARDED_BY(mutex_);  ///< of this daemon's handles; earlier ones had smaller ones
    const std::uint64_t first_;
};

/// A node and the origin's file behind it.
struct LivePlace {
    LiveNodePtr node;
    PosixNodePtr held;
};
Result<LivePlace> place_of(LiveOperations& operations, fuse_ino_t node);

/// Who sent a request. To be asked before it is answered.
Caller caller_of(fuse_req_t raw);
Changer changer_of(fuse_req_t raw);

/// Descriptors that an open with these flags takes: its own, its node's, and for one that may be mapped for writing the one
/// that watches it.
inline std::size_t descriptors_of(int flags) {
    return (flags & O_ACCMODE) == O_RDWR ? 3 : 2;
}

OpenReply open_reply(LiveOperations& operations, const LiveFiles::Opened& opened);

/// Replies with what a name leads to, and counts the look-up.
void reply_entry(LiveOperations& operations, LiveRequest& request, const LivePlace& parent,
                 const std::string& name);

// Each kind adds its functions to the table.
void add_live_attributes(fuse_lowlevel_ops& table);
void add_live_names(fuse_lowlevel_ops& table);
void add_live_directories(fuse_lowlevel_ops& table);
void add_live_data(fuse_lowlevel_ops& table);
void add_live_locks(fuse_lowlevel_ops& table);

}  // namespace tierfs
