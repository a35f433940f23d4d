#include "fs/readwrite/live_operations.hpp"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace tierfs {

namespace {

constexpr std::chrono::milliseconds kLongestAbsent{5000};
constexpr unsigned kReaders = 4;
constexpr unsigned kHandleBits = 40;  // of directories that one daemon opens

double seconds(std::chrono::milliseconds duration) {
    constexpr double kDecades = 1e9;
    return std::clamp(static_cast<double>(duration.count()) / 1000.0, 0.0, kDecades);
}

std::size_t most_descriptors() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

/// An eighth of the descriptors that the process may have: files that are open need theirs.
std::size_t descriptors_to_keep() {
    return std::clamp<std::size_t>(most_descriptors() / 8, 16, 65536);
}

void initialise(void* user, fuse_conn_info* connection) {
    const auto& operations = Session::user_at_init<LiveOperations>(user);
    unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS |
                      FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS |
                      FUSE_CAP_ATOMIC_O_TRUNC |
                      // Pages go when attributes show that the file was changed elsewhere.
                      FUSE_CAP_AUTO_INVAL_DATA |
                      // The umask counts only where the directory hands down no access control list.
                      FUSE_CAP_DONT_MASK;
    if (operations.origin().has_acls()) wanted |= FUSE_CAP_POSIX_ACL;
    // Else they are the kernel's, of this mount.
    constexpr unsigned kLocks = FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS;
    if (operations.origin().has_locks()) wanted |= kLocks;
    // Where each attribute costs a request, a listing must not ask for all.
    if (!operations.origin().answers_cheaply())
        wanted &= ~static_cast<unsigned>(FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
    // No write-back cache: whoever writes hears of errors at once, and other hosts see what was written.
    const unsigned unwanted = (FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | kLocks) & ~wanted;
    const unsigned never = FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
                           FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_HANDLE_KILLPRIV |
                           FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_NO_OPEN_SUPPORT |
                           FUSE_CAP_NO_OPENDIR_SUPPORT;
    connection->want |= connection->capable & wanted;
    connection->want &= ~(unwanted | never);
    connection->max_background = 64;
    connection->congestion_threshold = 48;
    connection->time_gran = 1;
}

fuse_lowlevel_ops make_table() {
    fuse_lowlevel_ops table{};
    table.init = initialise;
    add_live_attributes(table);
    add_live_names(table);
    add_live_directories(table);
    add_live_data(table);
    add_live_locks(table);
    return table;
}

}  // namespace

Result<std::unique_ptr<LiveOperations>> LiveOperations::open(PosixOrigin& origin, Store& store,
                                                             const std::string& identity,
                                                             const Settings& settings,
                                                             std::string mount_device, LiveRecord* record) {
    const auto root = origin.attributes(*origin.root());
    if (!root) return fail(root.error());
    if (record != nullptr && !record->keeps_root(root->identity()))
        return fail(ESTALE, "the source is another directory than the one that was mounted");
    return std::unique_ptr<LiveOperations>(
        new LiveOperations(origin, store, identity, settings, std::move(mount_device), *root, record));
}

LiveOperations::LiveOperations(PosixOrigin& origin, Store& store, const std::string& identity,
                               const Settings& settings, std::string mount_device,
                               const PosixAttributes& root, LiveRecord* record)
    : origin_(origin),
      store_(store),
      record_(record),
      shares_(origin.holds_for_nothing() ? std::numeric_limits<std::size_t>::max() / 2
                                         : DescriptorShares::for_files(most_descriptors())),
      mount_device_(std::move(mount_device)),
      device_(root.status.st_dev),
      valid_s_(seconds(settings.metadata_ttl)),
      // A bucket is asked again at once for a name that another host may have made: see BucketCalls.
      absent_s_(origin.answers_cheaply() ? seconds(std::min(settings.metadata_ttl, kLongestAbsent)) : 0),
      pack_max_object_(settings.pack_max_object),
      nodes_(origin, root, descriptors_to_keep(), record),
      files_(store, nodes_, identity, origin.waits_for_answers() ? kReaders : 0,
             settings.writes_passthrough == "true", record),
      locks_(files_, origin.has_locks(), record),
      next_(record != nullptr ? std::uint64_t{record->generation()} << kHandleBits : 1),
      first_(next_) {}

const fuse_lowlevel_ops& LiveOperations::table() {
    static const fuse_lowlevel_ops operations = make_table();
    return operations;
}

int LiveOperations::at_once(std::uint32_t opcode) {
    // Python's open() asks every file whether it is a terminal, and nothing in FUSE remembers the answer.
    return opcode == FUSE_IOCTL ? ENOTTY : SessionHandlers::kAsk;
}

struct stat LiveOperations::shown(const PosixAttributes& attributes) const {
    struct stat shown = attributes.status;
    // File systems mounted inside the source have inode numbers of their own.
    if (shown.st_dev != device_) shown.st_ino ^= shown.st_dev * 0x9E3779B97F4A7C15U;
    return shown;
}

// The times of a file that is mapped change without a word; that it is mapped no longer may just have moved
// one that the caller knows already.
double LiveOperations::valid_s(LiveNode& node) {
    const bool was_mapped = node.passed.is_mapped.load(std::memory_order_acquire);
    return files_.passthrough().may_be_mapped(node) || was_mapped ? 0 : valid_s_;
}

fuse_entry_param LiveOperations::entry(LiveNode& node, const PosixAttributes& attributes) {
    const bool is_told = LiveFiles::telling(node);
    fuse_entry_param entry{};
    entry.ino = node.id;
    entry.generation = 1;  // node ids are never reused
    entry.attr = shown(attributes);
    if (is_told) entry.attr_timeout = valid_s(valid_s(node), attributes);
    entry.entry_timeout = std::max(0.0, valid_s_ - attributes.age_s);
    return entry;
}

std::uint64_t LiveOperations::add_directory(PosixDirectoryPtr directory, DescriptorShares::Share share) {
    const MutexLock lock(mutex_);
    const auto handle = next_++;
    directories_.emplace(handle, OpenDirectory{std::move(directory), std::move(share)});
    return handle;
}

PosixDirectoryPtr LiveOperations::directory(std::uint64_t handle) {
    const MutexLock lock(mutex_);
    const auto found = directories_.find(handle);
    return found == directories_.end() ? nullptr : found->second.directory;
}

Result<PosixDirectoryPtr> LiveOperations::directory(std::uint64_t handle, NodeId node, std::uint32_t uid) {
    if (auto open = directory(handle)) return open;
    if (record_ == nullptr || handle >= first_) return fail(EBADF, "no such directory is open");
    const auto place = place_of(*this, node);
    if (!place) return fail(place.error());
    auto share = shares_.take(uid, 1);
    if (!share) return fail(ENFILE, "too many files are open");
    auto opened = origin_.open_directory(*place->held);
    if (!opened) return opened;
    const MutexLock lock(mutex_);
    return directories_.try_emplace(handle, OpenDirectory{std::move(*opened), std::move(*share)})
        .first->second.directory;
}

void LiveOperations::remove_directory(std::uint64_t handle) {
    OpenDirectory closed;
    const MutexLock lock(mutex_);
    const auto found = directories_.find(handle);
    if (found == directories_.end()) return;
    closed = std::move(found->second);
    directories_.erase(found);
}

Result<LivePlace> place_of(LiveOperations& operations, fuse_ino_t id) {
    auto node = operations.nodes().find(id);
    if (!node) return fail(std::move(node.error()));
    auto held = operations.nodes().hold(*node);
    if (!held) return fail(std::move(held.error()));
    return LivePlace{std::move(*node), std::move(*held)};
}

Caller caller_of(fuse_req_t raw) {
    const fuse_ctx* context = ::fuse_req_ctx(raw);
    return {context->uid, context->gid, context->umask & 0777U};
}

Changer changer_of(fuse_req_t raw) {
    const fuse_ctx* context = ::fuse_req_ctx(raw);
    return {context->pid, context->uid, context->gid};
}

OpenReply open_reply(LiveOperations& operations, const LiveFiles::Opened& opened) {
    OpenReply reply;
    reply.handle = opened.handle;
    reply.backing_id = opened.backing_id;
    if (opened.backing_id != 0) reply.flags |= kOpenPassthrough;
    if (opened.keeps_cache) reply.flags |= kOpenKeepsCache;
    // But for locks, which a process loses with any close(2) of the file.
    if (!opened.is_flushed && !operations.locks().serves()) reply.flags |= kOpenNoFlush;
    return reply;
}

void reply_entry(LiveOperations& operations, LiveRequest& request, const LivePlace& parent,
                 const std::string& name) {
    const auto found = operations.origin().look_up(*parent.held, name);
    if (!found) return request.refuse(found.error());
    const auto node = operations.nodes().met(parent.node, name, *found);
    if (!request.entry(operations.entry(*node, *found))) operations.nodes().forget(node->id, 1);
}

}  // namespace tierfs
