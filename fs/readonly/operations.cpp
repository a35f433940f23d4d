#include "fs/readonly/operations.hpp"

#include <linux/fuse.h>

#include <algorithm>
#include <cstring>

#include "config/base/log.hpp"
#include "config/base/time.hpp"
#include "fs/session/faults.hpp"
#include "fs/session/session.hpp"

namespace tierfs {

namespace {

void want(fuse_conn_info& connection, unsigned capability) {
    connection.want |= connection.capable & capability;
}

void initialise(void* user, fuse_conn_info* connection) {
    if (Session::user_at_init<Operations>(user).checks_acls()) want(*connection, FUSE_CAP_POSIX_ACL);
    want(*connection, FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS |
                          FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS |
                          FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT |
                          FUSE_CAP_EXPLICIT_INVAL_DATA);
    // A node is one version of a file, so its pages never go stale: no need to ask for its time before
    // reads. Splicing replies gains nothing (replies lie in memory).
    const unsigned unwanted = FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                              FUSE_CAP_SPLICE_MOVE | FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_HANDLE_KILLPRIV |
                              FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS;
    connection->want &= ~unwanted;
    connection->max_background = 64;
    connection->congestion_threshold = 48;
    connection->time_gran = 1;
}

fuse_lowlevel_ops make_table() {
    fuse_lowlevel_ops table{};
    table.init = initialise;
    add_attribute_operations(table);
    add_directory_operations(table);
    add_read_operations(table);
    add_link_operations(table);
    add_refused_operations(table);
    return table;
}

}  // namespace

const fuse_lowlevel_ops& Operations::table() {
    static const fuse_lowlevel_ops operations = make_table();
    return operations;
}

int Operations::at_once(std::uint32_t opcode) {
    switch (opcode) {
        // Nodes are known by the index, not by counts of lookups: forgetting costs nothing and frees nothing.
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
            return 0;
        // Python's open() asks every file whether it is a terminal, and nothing in FUSE remembers the answer.
        case FUSE_IOCTL:
            return ENOTTY;
        default:
            return SessionHandlers::kAsk;
    }
}

void answer_error(Operations& operations, Request& request, std::string_view operation, NodeId node,
                  const std::string& name, const Error& error) {
    // ESTALE: the kernel looks the name up once more.
    if (is_fault(error.code) && error.code != ESTALE) {
        const auto path = operations.names().path_of(node, name);
        log::error(std::string(operation) + " of " + (path.empty() ? "/" : path) +
                       " failed: " + error.message + " (" + ::strerrorname_np(error.code) + ")",
                   {path, error.code});
    }
    request.error(error.code);
}

double fuse_seconds(std::chrono::milliseconds duration) {
    constexpr double kDecades = 1e9;
    if (duration <= std::chrono::milliseconds::zero()) return 0;
    return std::min(kDecades, static_cast<double>(duration.count()) / 1000.0);
}

struct stat fuse_attributes(const NodeView& view, bool checks_acls) {
    const auto& from = view.attributes;
    struct stat to {};
    to.st_ino = view.inode;
    to.st_mode = from.mode & 07777U;
    if (checks_acls) to.st_mode |= from.acl & kAclMask;
    switch (from.kind) {
        case ObjectKind::file:
            to.st_mode |= S_IFREG;
            break;
        case ObjectKind::directory:
            to.st_mode |= S_IFDIR;
            break;
        case ObjectKind::symlink:
            to.st_mode |= S_IFLNK;
            break;
    }
    to.st_nlink = from.nlink;
    to.st_uid = from.uid;
    to.st_gid = from.gid;
    to.st_size = static_cast<off_t>(from.size);
    to.st_blocks = static_cast<blkcnt_t>(from.size / 512 + (from.size % 512 != 0 ? 1 : 0));
    to.st_blksize = 4096;
    const bool is_directory = from.kind == ObjectKind::directory;
    to.st_mtim = to_timespec(is_directory ? directory_time_ns(from.mtime_ns) : from.mtime_ns);
    to.st_atim = to.st_mtim;
    to.st_ctim = to_timespec(is_directory ? directory_time_ns(from.ctime_ns) : from.ctime_ns);
    return to;
}

fuse_entry_param fuse_entry(const NodeView& view, bool checks_acls) {
    fuse_entry_param entry{};
    entry.ino = view.node;
    entry.generation = 1;  // node ids are never reused
    entry.attr = fuse_attributes(view, checks_acls);
    entry.attr_timeout = fuse_seconds(view.valid_for);
    entry.entry_timeout = entry.attr_timeout;
    return entry;
}

}  // namespace tierfs
