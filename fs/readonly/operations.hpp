// fs/readonly/: what each FUSE request does, by kind: attributes.cpp (lookup, getattr, statfs),
// directories.cpp, read.cpp (open, read, release), links.cpp (readlink, extended attributes), refused.cpp
// (everything that would write). fs/daemon makes one Operations for a mount.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "config/base/mutex.hpp"
#include "config/settings.hpp"
#include "fs/metadata/namespace.hpp"
#include "fs/observe/trace/trace.hpp"
#include "fs/readonly/direct_reads.hpp"
#include "fs/readonly/open_files.hpp"
#include "fs/readonly/profile.hpp"
#include "fs/session/request.hpp"
#include "tiering/store/store.hpp"

namespace tierfs {

/// What stat(2) on the mount shows of a node. `checks_acls`: in the place of the group's permissions the mask of
/// an access control list, since the kernel looks at that.
struct stat fuse_attributes(const NodeView& view, bool checks_acls);
fuse_entry_param fuse_entry(const NodeView& view, bool checks_acls);

/// The answers of one mount. Holds references only: Namespace and Store must outlive it and its requests.
/// Thread-safe: each request stands alone. A request is answered on the thread that reads it when memory
/// knows the answer, else on the thread that the Namespace or the Store calls back on.
class Operations {
  public:
    /// `record`: see ConnectionRecord; may be null. `checks_acls`: the kernel does, and is shown the source's lists.
    Operations(Namespace& names, Store& store, const Settings& settings, ConnectionRecord* record = nullptr,
               bool checks_acls = false)
        : names_(names),
          store_(store),
          profile_(settings, record),
          open_files_(profile_, record),
          pack_max_object_(settings.pack_max_object),
          checks_acls_(checks_acls),
          direct_(settings.direct_passthrough, record) {}

    /// libfuse's table; its functions expect Session::user_of<Operations>.
    static const fuse_lowlevel_ops& table();

    /// What needs no answer of ours: see SessionHandlers::at_once.
    static int at_once(std::uint32_t opcode);

    [[nodiscard]] Namespace& names() const { return names_; }
    [[nodiscard]] Store& store() const { return store_; }
    [[nodiscard]] MountProfile& profile() { return profile_; }
    [[nodiscard]] OpenFiles& open_files() { return open_files_; }
    [[nodiscard]] Trace& trace() { return trace_; }
    [[nodiscard]] std::uint64_t pack_max_object() const { return pack_max_object_; }

    [[nodiscard]] bool checks_acls() const { return checks_acls_; }
    [[nodiscard]] DirectReads& direct() { return direct_; }

    [[nodiscard]] struct stat shown(const NodeView& view) const {
        return fuse_attributes(view, checks_acls_);
    }
    [[nodiscard]] fuse_entry_param entry(const NodeView& view) const {
        return fuse_entry(view, checks_acls_);
    }

    /// What the source said last of its file system.
    void remember(const struct statvfs& statistics) TIERFS_EXCLUDES(mutex_) {
        const MutexLock lock(mutex_);
        statistics_ = statistics;
    }
    [[nodiscard]] std::optional<struct statvfs> remembered() TIERFS_EXCLUDES(mutex_) {
        const MutexLock lock(mutex_);
        return statistics_;
    }

  private:
    Namespace& names_;
    Store& store_;
    MountProfile profile_;
    OpenFiles open_files_;
    Trace trace_;
    std::uint64_t pack_max_object_;
    const bool checks_acls_;
    DirectReads direct_;
    Mutex mutex_;
    std::optional<struct statvfs> statistics_ TIERFS_GUARDED_BY(mutex_);
};

/// Answers with an error. A fault of the source or of this host has a line in the log first: `operation` of the node, or of the
/// name in it.
void answer_error(Operations& operations, Request& request, std::string_view operation, NodeId node,
                  const std::string& name, const Error& error);

/// Seconds as libfuse wants them; kForever becomes decades.
double fuse_seconds(std::chrono::milliseconds duration);

// Each kind adds its functions to the table.
void add_attribute_operations(fuse_lowlevel_ops& table);
void add_directory_operations(fuse_lowlevel_ops& table);
void add_read_operations(fuse_lowlevel_ops& table);
void add_link_operations(fuse_lowlevel_ops& table);
void add_refused_operations(fuse_lowlevel_ops& table);

}  // namespace tierfs
