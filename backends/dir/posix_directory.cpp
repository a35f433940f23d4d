#include "backends/dir/posix_directory.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/dir/beneath.hpp"
#include "backends/dir/caller_scope.hpp"
#include "backends/origin/upload_name.hpp"
#include "config/base/fault_point.hpp"

namespace tierfs {

namespace {

/// The name of a file that is to have none, where the file system cannot do without: it goes with who holds it.
class HiddenName {
  public:
    HiddenName(FileDescriptor directory, std::string name)
        : directory_(std::move(directory)), name_(std::move(name)) {}
    ~HiddenName() { ::unlinkat(directory_.get(), name_.c_str(), 0); }
    HiddenName(const HiddenName&) = delete;
    HiddenName& operator=(const HiddenName&) = delete;

  private:
    const FileDescriptor directory_;
    const std::string name_;
};

class Held final : public PosixNode {
  public:
    explicit Held(FileDescriptor descriptor, std::shared_ptr<const HiddenName> hidden = nullptr)
        : descriptor_(std::move(descriptor)), hidden_(std::move(hidden)) {}
    [[nodiscard]] int get() const { return descriptor_.get(); }
    [[nodiscard]] bool has_hidden_name() const { return hidden_ != nullptr; }

  private:
    FileDescriptor descriptor_;
    std::shared_ptr<const HiddenName> hidden_;
};

/// Attributes of which the file system below alone knows who may see and set them: "system.nfs4_acl" and the
/// like. The kernel checks nothing of them, but for access control lists as POSIX has them.
bool is_judged_below(std::string_view name) {
    return name.starts_with("system.") && !name.starts_with("system.posix_acl_");
}

bool has_names_judged_below(std::string_view names) {
    while (!names.empty()) {
        const auto name = names.substr(0, names.find('\0'));
        if (is_judged_below(name)) return true;
        names.remove_prefix(std::min(name.size() + 1, names.size()));
    }
    return false;
}

int at(const PosixNode& node) {
    return static_cast<const Held&>(node).get();  // NOLINT(*-static-cast-downcast): nobody else makes nodes
}

/// The name by which calls reach what an O_PATH descriptor refers to.
std::string in_proc(const PosixNode& node) {
    return "/proc/self/fd/" + std::to_string(at(node));
}

Result<void> done_or_error(int result, const char* what) {
    if (result == 0) return {};
    return fail(system_error(errno, what));
}

timespec to_timespec(const struct statx_timestamp& time) {
    return {time.tv_sec, static_cast<long>(time.tv_nsec)};
}

struct stat to_stat(const struct statx& from) {
    struct stat to {};
    to.st_dev = ::makedev(from.stx_dev_major, from.stx_dev_minor);
    to.st_ino = from.stx_ino;
    to.st_mode = from.stx_mode;
    to.st_nlink = from.stx_nlink;
    to.st_uid = from.stx_uid;
    to.st_gid = from.stx_gid;
    to.st_rdev = ::makedev(from.stx_rdev_major, from.stx_rdev_minor);
    to.st_size = static_cast<off_t>(from.stx_size);
    to.st_blksize = static_cast<blksize_t>(from.stx_blksize);
    to.st_blocks = static_cast<blkcnt_t>(from.stx_blocks);
    to.st_atim = to_timespec(from.stx_atime);
    to.st_mtim = to_timespec(from.stx_mtime);
    to.st_ctim = to_timespec(from.stx_ctime);
    return to;
}

/// What open(2) may be told of the flags of whoever opens. O_APPEND is not among them: the kernel says where
/// to write, and pages of a mapping may be written through any descriptor. Nor is O_DIRECT, which wants
/// aligned memory.
int origin_flags(int flags) {
    return (flags & (O_ACCMODE | O_TRUNC | O_EXCL | O_SYNC)) | O_CLOEXEC | O_NOCTTY;
}

}  // namespace

Result<PosixAttributes> posix_attributes(int descriptor, const std::string& name) {
    struct statx found {};
    const int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (name.empty() ? AT_EMPTY_PATH : 0);
    if (TIERFS_FAULT_CALL("posix.stat", ::statx(descriptor, name.c_str(), flags,
                                                STATX_BASIC_STATS | STATX_BTIME, &found)) != 0)
        return fail(system_error(errno, "statx"));
    PosixAttributes attributes;
    attributes.status = to_stat(found);
    if ((found.stx_mask & STATX_BTIME) != 0)
        attributes.born_ns = to_ns(found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
    if (S_ISREG(attributes.status.st_mode))
        attributes.version = to_attributes(attributes.status).attributes.version;
    return attributes;
}

Result<PosixAttributes> attributes_of_nameless(int descriptor) {
    auto attributes = posix_attributes(descriptor, {});
    if (attributes && attributes->status.st_nlink > 0) --attributes->status.st_nlink;
    return attributes;
}

PosixTree::PosixTree(FileDescriptor root) : root_(std::make_shared<Held>(std::move(root))) {
    const auto length =
        ::getxattr(in_proc(*root_).c_str(), "system.posix_acl_access", nullptr, std::size_t{0});
    has_acls_ = length >= 0 || errno != EOPNOTSUPP;
    struct statfs found {};
    has_reserve_ = ::fstatfs(at(*root_), &found) == 0 &&
                   (found.f_type == EXT4_SUPER_MAGIC || found.f_type == F2FS_SUPER_MAGIC);
}

Result<PosixAttributes> PosixTree::look_up(const PosixNode& directory, const std::string& name) {
    ++counters_->lookups;
    return posix_attributes(at(directory), name);
}

Result<PosixNodePtr> PosixTree::hold(const PosixNode& directory, const std::string& name) {
    auto opened = open_beneath(at(directory), name, O_PATH | O_NOFOLLOW);
    if (!opened) return fail(std::move(opened.error()));
    return std::make_shared<const Held>(std::move(*opened));
}

Result<PosixAttributes> PosixTree::attributes(const PosixNode& node) {
    ++counters_->lookups;
    // NOLINTNEXTLINE(*-static-cast-downcast): nobody else makes nodes
    const bool is_hidden = static_cast<const Held&>(node).has_hidden_name();
    return is_hidden ? attributes_of_nameless(at(node)) : posix_attributes(at(node), {});
}

Result<std::string> PosixTree::read_link(const PosixNode& node) {
    ++counters_->others;
    std::array<char, PATH_MAX> target{};
    const ssize_t length =
        TIERFS_FAULT_CALL("posix.readlink", ::readlinkat(at(node), "", target.data(), target.size()));
    if (length < 0) return fail(system_error(errno == ENOENT ? EINVAL : errno, "readlink"));
    return std::string(target.data(), static_cast<std::size_t>(length));
}

namespace {

FileDescriptor hold_open(int file) {
    return within_limit(
        FileDescriptor(::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_PATH | O_CLOEXEC)));
}

}  // namespace

Result<PosixCreated> PosixTree::create(const PosixNode& directory, const std::string& name, int flags,
                                       mode_t mode, const Caller& caller) {
    ++counters_->others;
    struct open_how how {};
    how.flags = static_cast<std::uint64_t>((origin_flags(flags) & ~O_TRUNC) | O_CREAT | O_EXCL | O_NOFOLLOW);
    how.mode = mode & 07777U;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    FileDescriptor file;
    {
        const CallerScope acting(caller);
        file.reset(static_cast<int>(TIERFS_FAULT_CALL(
            "posix.create", ::syscall(SYS_openat2, at(directory), name.c_str(), &how, sizeof(how)))));
        // Nobody has checked whether the caller may open what is there since the kernel looked: it is to look
        // again, which ESTALE makes it do.
        if (file && !(file = within_limit(std::move(file)))) {
            ::unlinkat(at(directory), name.c_str(), 0);
            return fail(system_error(EMFILE, "creating a file"));
        }
        if (!file)
            return fail(
                system_error(errno == EEXIST && (flags & O_EXCL) == 0 ? ESTALE : errno, "creating a file"));
    }
    auto attributes = posix_attributes(file.get(), {});
    if (!attributes) return fail(std::move(attributes.error()));
    auto node = hold_open(file.get());
    if (!node) return fail(system_error(errno, "holding a file"));
    return PosixCreated{make_posix_file(std::move(file), counters_), std::move(*attributes),
                        std::make_shared<const Held>(std::move(node))};
}

Result<PosixCreated> PosixTree::make_nameless(const PosixNode& directory, int flags, mode_t mode,
                                              const Caller& caller) {
    ++counters_->others;
    FileDescriptor file;
    std::shared_ptr<HiddenName> hidden;
    {
        const CallerScope acting(caller);
        const int how = origin_flags(flags) & ~(O_TRUNC | O_EXCL);
        file.reset(
            TIERFS_FAULT_CALL("posix.tmpfile", ::openat(at(directory), ".", how | O_TMPFILE, mode & 07777U)));
        // Not every file system has them: open(2).
        if (!file && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
            auto name = new_upload_name(".tierfs-nameless-");
            file.reset(
                ::openat(at(directory), name.c_str(), how | O_CREAT | O_EXCL | O_NOFOLLOW, mode & 07777U));
            FileDescriptor kept(::fcntl(at(directory), F_DUPFD_CLOEXEC, 0));
            if (file && !kept) {
                const int code = errno;
                ::unlinkat(at(directory), name.c_str(), 0);
                return fail(system_error(code, "creating a file without a name"));
            }
            if (file) hidden = std::make_shared<HiddenName>(std::move(kept), std::move(name));
        }
        file = within_limit(std::move(file));
        if (!file) return fail(system_error(errno, "creating a file without a name"));
    }
    const bool is_hidden = hidden != nullptr;
    auto attributes = is_hidden ? attributes_of_nameless(file.get()) : posix_attributes(file.get(), {});
    if (!attributes) return fail(std::move(attributes.error()));
    auto node = hold_open(file.get());
    if (!node) return fail(system_error(errno, "holding a file without a name"));
    return PosixCreated{make_posix_file(std::move(file), counters_, is_hidden), std::move(*attributes),
                        std::make_shared<const Held>(std::move(node), std::move(hidden))};
}

Result<void> PosixTree::make_directory(const PosixNode& directory, const std::string& name, mode_t mode,
                                       const Caller& caller) {
    ++counters_->others;
    const CallerScope acting(caller);
    return done_or_error(
        TIERFS_FAULT_CALL("posix.mkdir", ::mkdirat(at(directory), name.c_str(), mode & 07777U)), "mkdir");
}

Result<void> PosixTree::make_node(const PosixNode& directory, const std::string& name, mode_t mode,
                                  dev_t device, const Caller& caller) {
    ++counters_->others;
    const CallerScope acting(caller);
    return done_or_error(
        TIERFS_FAULT_CALL("posix.mknod", ::mknodat(at(directory), name.c_str(), mode, device)), "mknod");
}

Result<void> PosixTree::make_link(const PosixNode& directory, const std::string& name,
                                  const std::string& target, const Caller& caller) {
    ++counters_->others;
    const CallerScope acting(caller);
    return done_or_error(
        TIERFS_FAULT_CALL("posix.symlink", ::symlinkat(target.c_str(), at(directory), name.c_str())),
        "symlink");
}

Result<void> PosixTree::add_name(const PosixNode& node, const PosixNode& directory, const std::string& name) {
    ++counters_->others;
    const ActorScope acting(ActorScope::Changes::names, has_reserve_);
    int result =
        TIERFS_FAULT_CALL("posix.link", ::linkat(at(node), "", at(directory), name.c_str(), AT_EMPTY_PATH));
    // Without CAP_DAC_READ_SEARCH: linkat(2).
    if (result != 0 && errno == ENOENT)
        result = ::linkat(AT_FDCWD, in_proc(node).c_str(), at(directory), name.c_str(), AT_SYMLINK_FOLLOW);
    return done_or_error(result, "link");
}

Result<void> PosixTree::remove(const PosixNode& directory, const std::string& name, bool is_directory) {
    ++counters_->removes;
    return done_or_error(TIERFS_FAULT_CALL("posix.remove", ::unlinkat(at(directory), name.c_str(),
                                                                      is_directory ? AT_REMOVEDIR : 0)),
                         "unlink");
}

Result<void> PosixTree::rename(const PosixNode& from, const std::string& name, const PosixNode& to,
                               const std::string& new_name, unsigned flags) {
    ++counters_->others;
    const ActorScope acting(ActorScope::Changes::names, has_reserve_);
    return done_or_error(
        static_cast<int>(TIERFS_FAULT_CALL("posix.rename", ::syscall(SYS_renameat2, at(from), name.c_str(),
                                                                     at(to), new_name.c_str(), flags))),
        "rename");
}

Result<PosixFilePtr> PosixTree::open(const PosixNode& node, int flags) {
    ++counters_->others;
    FileDescriptor file;
    {
        const ActorScope acting(ActorScope::Changes::contents, false);  // O_TRUNC
        file.reset(
            TIERFS_FAULT_CALL("posix.open", ::open(in_proc(node).c_str(), origin_flags(flags) & ~O_EXCL)));
        file = within_limit(std::move(file));
        if (!file) return fail(system_error(errno, "open"));
    }
    return make_posix_file(std::move(file), counters_);
}

Result<PosixOrigin::Adopted> PosixTree::adopt(FileDescriptor file) {
    auto node = hold_open(file.get());
    if (!node) return fail(system_error(errno, "holding a file"));
    return Adopted{make_posix_file(std::move(file), counters_),
                   std::make_shared<const Held>(std::move(node))};
}

Result<PosixDirectoryPtr> PosixTree::open_directory(const PosixNode& node) {
    ++counters_->lists;
    auto directory = within_limit(FileDescriptor(
        TIERFS_FAULT_CALL("posix.opendir", ::openat(at(node), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC))));
    if (!directory) return fail(system_error(errno, "opendir"));
    return make_posix_directory(std::move(directory), counters_);
}

Result<void> PosixTree::set_mode(const PosixNode& node, mode_t mode) {
    ++counters_->others;
    return done_or_error(TIERFS_FAULT_CALL("posix.chmod", ::chmod(in_proc(node).c_str(), mode & 07777U)),
                         "chmod");
}

Result<void> PosixTree::set_owner(const PosixNode& node, uid_t uid, gid_t gid) {
    ++counters_->others;
    const ActorScope acting(ActorScope::Changes::names, has_reserve_);
    return done_or_error(TIERFS_FAULT_CALL("posix.chown", ::fchownat(at(node), "", uid, gid, AT_EMPTY_PATH)),
                         "chown");
}

Result<void> PosixTree::set_times(const PosixNode& node, const struct timespec& access,
                                  const struct timespec& modification) {
    ++counters_->others;
    const std::array<timespec, 2> times{access, modification};
    // The name in /proc leads to the link itself where it is one.
    return done_or_error(
        TIERFS_FAULT_CALL("posix.utimens", ::utimensat(AT_FDCWD, in_proc(node).c_str(), times.data(), 0)),
        "utimens");
}

Result<void> PosixTree::resize(const PosixNode& node, std::uint64_t size) {
    ++counters_->others;
    const ActorScope acting(ActorScope::Changes::contents, false);
    return done_or_error(
        TIERFS_FAULT_CALL("posix.truncate", ::truncate(in_proc(node).c_str(), static_cast<off_t>(size))),
        "truncate");
}

Result<std::size_t> PosixTree::get_xattr(const PosixNode& node, const std::string& name,
                                         std::span<char> value) {
    ++counters_->others;
    std::optional<ImpersonationScope> caller;
    if (is_judged_below(name)) caller.emplace();
    const auto length = TIERFS_FAULT_CALL(
        "posix.getxattr", ::getxattr(in_proc(node).c_str(), name.c_str(), value.data(), value.size()));
    if (length < 0) return fail(system_error(errno, "getxattr"));
    return static_cast<std::size_t>(length);
}

Result<std::size_t> PosixTree::list_xattrs(const PosixNode& node, std::span<char> names) {
    ++counters_->others;
    auto length =
        TIERFS_FAULT_CALL("posix.listxattr", ::listxattr(in_proc(node).c_str(), names.data(), names.size()));
    if (length < 0) return fail(system_error(errno, "listxattr"));
    if (!has_names_judged_below({names.data(), static_cast<std::size_t>(names.empty() ? 0 : length)}))
        return static_cast<std::size_t>(length);
    const ImpersonationScope caller;
    length = ::listxattr(in_proc(node).c_str(), names.data(), names.size());
    if (length < 0) return fail(system_error(errno, "listxattr"));
    return static_cast<std::size_t>(length);
}

Result<void> PosixTree::set_xattr(const PosixNode& node, const std::string& name, std::span<const char> value,
                                  int flags) {
    ++counters_->others;
    const ActorScope acting(ActorScope::Changes::names, has_reserve_);
    std::optional<ImpersonationScope> caller;
    if (is_judged_below(name)) caller.emplace();
    return done_or_error(TIERFS_FAULT_CALL("posix.setxattr", ::setxattr(in_proc(node).c_str(), name.c_str(),
                                                                        value.data(), value.size(), flags)),
                         "setxattr");
}

Result<void> PosixTree::remove_xattr(const PosixNode& node, const std::string& name) {
    ++counters_->others;
    std::optional<ImpersonationScope> caller;
    if (is_judged_below(name)) caller.emplace();
    return done_or_error(
        TIERFS_FAULT_CALL("posix.removexattr", ::removexattr(in_proc(node).c_str(), name.c_str())),
        "removexattr");
}

Result<struct statvfs> PosixTree::statistics() {
    ++counters_->others;
    struct statvfs found {};
    if (TIERFS_FAULT_CALL("posix.statfs", ::fstatvfs(at(*root_), &found)) != 0)
        return fail(system_error(errno, "statfs"));
    return found;
}

PosixStats PosixTree::stats() const {
    const auto& now = *counters_;
    return {now.reads,  now.writes,     now.removes,       now.lookups, now.lists,
            now.others, now.bytes_read, now.bytes_written, now.errors};
}

}  // namespace tierfs
