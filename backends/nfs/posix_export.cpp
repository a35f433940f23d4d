#include "backends/nfs/posix_export.hpp"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <functional>

#include "backends/nfs/posix_file.hpp"

namespace tierfs::nfs {
namespace {

/// Of a page of a directory: names alone, and everything.
constexpr std::uint32_t kPageNames = 16 << 10, kPageBytes = 128 << 10;

class Node final : public PosixNode {
  public:
    explicit Node(Handle handle) : handle_(std::move(handle)) {}
    /// Empty: the root, whose handle Root knows.
    [[nodiscard]] const Handle& handle() const { return handle_; }

  private:
    const Handle handle_;
};

/// Handles are what files are told apart by: inode numbers are used again.
std::int64_t mark_of(const Handle& handle) {
    return static_cast<std::int64_t>(std::hash<Handle>()(handle) >> 1U) + 1;
}

constexpr std::uint32_t kNameLength = 255;

/// The mode after a write. Without execution by the group S_ISGID has another meaning.
mode_t without_set_id(mode_t mode) {
    mode &= ~static_cast<mode_t>(S_ISUID);
    return (mode & S_IXGRP) != 0 ? mode & ~static_cast<mode_t>(S_ISGID) : mode;
}

}  // namespace

int to_posix_errno(std::uint32_t status) {
    return status == kNotOwner ? EPERM : to_errno(status);
}

std::shared_ptr<UnstableWrites> OpenFiles::open(const Handle& handle) {
    MutexLock lock(mutex_);
    while (leaving_.contains(handle)) lock.wait(changed_);
    auto& file = files_[handle];
    ++file.opens;
    if (!file.writes) {
        file.writes = std::make_shared<UnstableWrites>(client_, budget_, handle, deadline_);
        budget_.add(file.writes);
    }
    return file.writes;
}

std::optional<Place> OpenFiles::close(const Handle& handle) {
    const MutexLock lock(mutex_);
    const auto found = files_.find(handle);
    if (found == files_.end() || --found->second.opens != 0) return std::nullopt;
    auto hidden = std::move(found->second.hidden);
    files_.erase(found);
    return hidden;
}

std::shared_ptr<UnstableWrites> OpenFiles::writes(const Handle& handle) {
    const MutexLock lock(mutex_);
    const auto found = files_.find(handle);
    return found == files_.end() ? nullptr : found->second.writes;
}

void OpenFiles::hide(const Handle& handle, Place place) {
    const MutexLock lock(mutex_);
    const auto found = files_.find(handle);
    if (found != files_.end()) found->second.hidden = std::move(place);
}

void OpenFiles::note_mode(const Handle& handle, mode_t mode) {
    const MutexLock lock(mutex_);
    const auto found = files_.find(handle);
    if (found != files_.end()) found->second.has_set_id = without_set_id(mode) != mode;
}

bool OpenFiles::has_set_id(const Handle& handle) {
    const MutexLock lock(mutex_);
    const auto found = files_.find(handle);
    return found != files_.end() && found->second.has_set_id;
}

OpenFiles::Leaving::Leaving(OpenFiles& files, Handle handle) : files_(files), handle_(std::move(handle)) {
    MutexLock lock(files_.mutex_);
    while (!files_.leaving_.insert(handle_).second) lock.wait(files_.changed_);
}

OpenFiles::Leaving::~Leaving() {
    const MutexLock lock(files_.mutex_);
    files_.leaving_.erase(handle_);
    files_.changed_.notify_all();
}

bool OpenFiles::is_open(const Handle& handle) {
    const MutexLock lock(mutex_);
    return files_.contains(handle);
}

bool OpenFiles::is_hidden(const Handle& handle) {
    const MutexLock lock(mutex_);
    const auto found = files_.find(handle);
    return found != files_.end() && found->second.hidden.has_value();
}

PosixExport::PosixExport(Client& client, Root& root, const Options& options)
    : client_(client),
      root_(root),
      uid_(options.uid),
      deadline_(options.deadline),
      root_node_(std::make_shared<const Node>(Handle())),
      budget_(options.budget),
      open_files_(client, budget_, options.deadline),
      half_made_(client),
      entries_(options.entries, options.longest) {}

Call PosixExport::call(const Procedure& procedure, std::string arguments) const {
    Call made;
    made.procedure = procedure;
    made.arguments = std::move(arguments);
    made.deadline = Clock::now() + deadline_;
    return made;
}

Result<Handle> PosixExport::handle_of(const PosixNode& node) {
    // NOLINTNEXTLINE(*-static-cast-downcast): nobody else makes nodes
    const auto& handle = static_cast<const Node&>(node).handle();
    if (!handle.empty()) return handle;
    const Answer<Handle> answer;
    const auto until = Clock::now() + deadline_;
    root_.get(until, [answer](Result<Handle> root) { answer.give(std::move(root)); });
    return answer.wait(until);
}

PosixAttributes PosixExport::shown(const struct stat& status, const Handle& handle,
                                   std::optional<Clock::time_point> asked) {
    PosixAttributes shown;
    shown.status = status;
    clock_.saw(to_ns(status.st_ctim.tv_sec, status.st_ctim.tv_nsec));
    if (asked) shown.age_s = std::chrono::duration<double>(Clock::now() - *asked).count();
    if (S_ISDIR(status.st_mode)) shown.node = std::make_shared<const Node>(handle);
    shown.born_ns = mark_of(handle);
    if (S_ISREG(status.st_mode)) {
        auto version = to_attributes(status);
        shown.version = version_of(version);
        open_files_.note_mode(handle, status.st_mode);
        if (open_files_.is_hidden(handle) && shown.status.st_nlink > 0) --shown.status.st_nlink;
    }
    return shown;
}

Result<StatReply> PosixExport::find(const Handle& directory, const std::string& name) {
    if (name.size() > kNameLength) return fail(ENAMETOOLONG, "LOOKUP");
    auto found = ask(call(kLookup, lookup_arguments(directory, name)), "LOOKUP", read_lookup_stat);
    if (!found) return fail(std::move(found.error()));
    if (found->reply.status != kOk)
        return fail(to_errno(found->reply.status), "LOOKUP: " + status_name(found->reply.status));
    return std::move(found->reply);
}

Result<PosixAttributes> PosixExport::look_up(const PosixNode& directory, const std::string& name) {
    const auto parent = handle_of(directory);
    if (!parent) return fail(parent.error());
    if (const auto listed = entries_.take(*parent, name); listed && !open_files_.is_open(listed->handle))
        return shown(listed->status, listed->handle, listed->asked);
    const auto found = find(*parent, name);
    if (!found) return fail(found.error());
    // What is on its way counts, too.
    if (const auto writes = open_files_.writes(found->handle); writes && writes->bytes() != 0)
        return attributes_of(found->handle);
    if (!found->attributes) return attributes_of(found->handle);
    return shown(*found->attributes, found->handle);
}

Result<PosixNodePtr> PosixExport::hold(const PosixNode& directory, const std::string& name) {
    const auto parent = handle_of(directory);
    if (!parent) return fail(parent.error());
    auto found = find(*parent, name);
    if (!found) return fail(std::move(found.error()));
    return node_of(std::move(found->handle));
}

Result<PosixAttributes> PosixExport::attributes(const PosixNode& node) {
    const auto handle = handle_of(node);
    if (!handle) return fail(handle.error());
    return attributes_of(*handle);
}

Result<PosixAttributes> PosixExport::attributes_of(const Handle& handle) {
    if (const auto writes = open_files_.writes(handle)) writes->settle();
    const auto told = ask(call(kGetattr, handle_arguments(handle)), "GETATTR", read_getattr_stat);
    if (!told) return fail(told.error());
    if (told->reply.status != kOk || !told->reply.attributes)
        return fail(to_errno(told->reply.status), "GETATTR: " + status_name(told->reply.status));
    return shown(*told->reply.attributes, handle);
}

Result<std::string> PosixExport::read_link(const PosixNode& node) {
    const auto handle = handle_of(node);
    if (!handle) return fail(handle.error());
    auto told = ask(call(kReadlink, handle_arguments(*handle)), "READLINK", read_readlink);
    if (!told) return fail(told.error());
    if (told->reply.status != kOk)
        return fail(to_posix_errno(told->reply.status), "READLINK: " + status_name(told->reply.status));
    if (told->reply.target.find('\0') != std::string::npos)
        return fail(EIO, "READLINK: the server sends no path");
    return std::move(told->reply.target);
}

Result<void> PosixExport::set_attributes(const Handle& handle, const SetAttributes& attributes) {
    return act(call(kSetattr, setattr_arguments(handle, attributes)), "SETATTR");
}

Result<void> PosixExport::act(Call call, const char* what) {
    const auto done = ask(std::move(call), what, read_status);
    if (!done) return fail(done.error());
    if (done->reply == kOk) return {};
    return fail(to_posix_errno(done->reply), std::string(what) + ": " + status_name(done->reply));
}

Result<void> PosixExport::set_mode(const PosixNode& node, mode_t mode) {
    const auto handle = handle_of(node);
    if (!handle) return fail(handle.error());
    auto done = set_attributes(*handle, {.mode = mode & 07777U});
    if (done) open_files_.note_mode(*handle, mode);
    return done;
}

Result<void> PosixExport::set_owner(const PosixNode& node, uid_t uid, gid_t gid) {
    const auto handle = handle_of(node);
    if (!handle) return fail(handle.error());
    SetAttributes wanted;
    if (uid != static_cast<uid_t>(-1)) wanted.uid = uid;
    if (gid != static_cast<gid_t>(-1)) wanted.gid = gid;
    auto set = call(kSetattr, setattr_arguments(*handle, wanted));
    if (wanted.gid) set.groups = {*wanted.gid};  // the kernel has checked that an owner is in that group
    return act(std::move(set), "SETATTR");
}

Result<void> PosixExport::set_times(const PosixNode& node, const struct timespec& access,
                                    const struct timespec& modification) {
    const auto handle = handle_of(node);
    if (!handle) return fail(handle.error());
    // A write that the server carries out later would set the time again.
    if (const auto writes = open_files_.writes(*handle)) writes->settle();
    return set_attributes(*handle, {.access = access, .modification = modification});
}

Result<void> PosixExport::resize(const PosixNode& node, std::uint64_t size) {
    const auto handle = handle_of(node);
    if (!handle) return fail(handle.error());
    return resize_to(*handle, size);
}

Result<void> PosixExport::clear_set_id(const Handle& handle) {
    if (!open_files_.has_set_id(handle)) return {};
    const auto there = attributes_of(handle);
    if (!there) return fail(there.error());
    return clear_set_id(handle, there->status);
}

Result<void> PosixExport::clear_set_id(const Handle& handle, const struct stat& status) {
    const auto mode = without_set_id(status.st_mode);
    if (mode == status.st_mode) return {};
    auto cleared = set_attributes(handle, {.mode = mode & 07777U});
    if (cleared) open_files_.note_mode(handle, mode);
    return cleared;
}

Result<void> PosixExport::resize_to(const Handle& handle, std::uint64_t size) {
    const auto there = attributes_of(handle);
    if (!there) return fail(there.error());
    if (auto cleared = clear_set_id(handle, there->status); !cleared) return cleared;
    // What is sent again after that must not make it longer.
    if (const auto writes = open_files_.writes(handle)) writes->commit();
    return set_attributes(handle, {.size = size});
}

PosixNodePtr PosixExport::node_of(Handle handle) {
    return std::make_shared<const Node>(std::move(handle));
}

PosixFilePtr PosixExport::make_file(const Handle& handle, int flags) {
    return std::make_shared<PosixExportFile>(*this, handle, open_files_.open(handle), flags);
}

Result<PosixFilePtr> PosixExport::open(const PosixNode& node, int flags) {
    const auto handle = handle_of(node);
    if (!handle) return fail(handle.error());
    auto file = make_file(*handle, flags);
    if ((flags & O_TRUNC) != 0) {
        if (auto cut = resize_to(*handle, 0); !cut) return fail(std::move(cut.error()));
    } else if (const auto there = attributes_of(*handle); !there) {
        return fail(there.error());  // ESTALE: the kernel looks up the name again
    }
    return file;
}

void PosixExport::closed(const Handle& handle, bool was_written) {
    if (was_written) entries_.note({EntryMemory::mark_of(handle)});
    const auto hidden = open_files_.close(handle);
    if (!hidden) return;
    (void)take_name(call(kRemove, name_arguments(hidden->directory, hidden->name)), "REMOVE",
                    hidden->directory, hidden->name);
}

Result<PosixExport::Asked<ReaddirplusReply>> PosixExport::read_names(const Handle& directory,
                                                                     std::uint64_t after,
                                                                     const std::string& verifier) {
    if (!names_alone_) {
        const auto begun = Clock::now();
        auto asked =
            ask(call(kReaddirplus, readdirplus_arguments(directory, after, verifier, kPageNames, kPageBytes)),
                "READDIRPLUS", read_readdirplus);
        if (asked && asked->reply.status == kOk) entries_.keep(directory, asked->reply.entries, begun);
        if (!asked || asked->reply.status != kNotSupported) return asked;
        names_alone_ = true;
    }
    return ask(call(kReaddir, readdir_arguments(directory, after, verifier, kPageNames)), "READDIR",
               read_readdir);
}

Result<PosixDirectoryPtr> PosixExport::open_directory(const PosixNode& node) {
    const auto handle = handle_of(node);
    if (!handle) return fail(handle.error());
    return std::make_shared<PosixExportDirectory>(*this, *handle);
}

Result<std::size_t> PosixExport::get_xattr(const PosixNode&, const std::string&, std::span<char>) {
    return fail(EOPNOTSUPP, "NFSv3 has no extended attributes");
}

Result<std::size_t> PosixExport::list_xattrs(const PosixNode&, std::span<char>) {
    return 0;
}

Result<void> PosixExport::set_xattr(const PosixNode&, const std::string&, std::span<const char>, int) {
    return fail(EOPNOTSUPP, "NFSv3 has no extended attributes");
}

Result<void> PosixExport::remove_xattr(const PosixNode&, const std::string&) {
    return fail(EOPNOTSUPP, "NFSv3 has no extended attributes");
}

Result<struct statvfs> PosixExport::statistics() {
    const auto root = handle_of(*root_node_);
    if (!root) return fail(root.error());
    const auto told = ask(call(kFsstat, handle_arguments(*root)), "FSSTAT", read_fsstat);
    if (!told) return fail(told.error());
    const auto& reply = told->reply;
    if (reply.status != kOk) return fail(to_errno(reply.status), "FSSTAT: " + status_name(reply.status));
    constexpr std::uint64_t kBlock = 4096;
    struct statvfs statistics {};
    statistics.f_bsize = statistics.f_frsize = kBlock;
    statistics.f_blocks = reply.total_bytes / kBlock;
    statistics.f_bfree = reply.free_bytes / kBlock;
    statistics.f_bavail = reply.available_bytes / kBlock;
    statistics.f_files = reply.total_files;
    statistics.f_ffree = reply.free_files;
    statistics.f_favail = reply.available_files;
    statistics.f_namemax = kNameLength;
    return statistics;
}

PosixStats PosixExport::stats() const {
    const auto& counted = client_.counters();
    PosixStats stats;
    stats.reads = counted.get;
    stats.writes = counted.put;
    stats.removes = counted.remove;
    stats.lookups = counted.head;
    stats.lists = counted.list;
    stats.others = counted.other;
    stats.bytes_read = counted.bytes_read;
    stats.bytes_written = counted.bytes_written;
    stats.errors = counted.errors;
    return stats;
}

}  // namespace tierfs::nfs
