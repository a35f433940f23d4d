#include "fs/daemon/unmount.hpp"

#define FUSE_USE_VERSION 314
#include <fcntl.h>
#include <fuse3/fuse_log.h>
#include <fuse3/fuse_lowlevel.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "config/mount_options.hpp"
#include "fs/control/mountinfo.hpp"
#include "fs/daemon/mount_place.hpp"

namespace tierfs {

namespace {

// libfuse's log function has no user pointer. Written before there are threads, and read right after.
std::string& libfuse_words() {
    static std::string words;
    return words;
}

__attribute__((format(printf, 2, 0))) void keep_words(fuse_log_level /*level*/, const char* format,
                                                      va_list arguments) {
    std::array<char, 512> line{};
    std::vsnprintf(line.data(), line.size(), format, arguments);  // NOLINT: libfuse's own format
    libfuse_words() += line.data();
}

std::string escaped(const std::string& value) {
    std::string out;
    for (const char letter : value) {
        if (letter == ',' || letter == '\\') out += '\\';
        out += letter;
    }
    return out;
}

Result<std::string> device_of(const std::string& mountpoint) {
    const auto mounts = read_mountinfo();
    if (!mounts) return fail(mounts.error());
    const auto found = find_mount(*mounts, mountpoint);
    if (!found || !found->is_tierfs()) return fail(EIO, mountpoint + " was unmounted again at once");
    return found->device();
}

Result<void> run_fusermount(const std::string& mountpoint, bool lazy) {
    std::string program = "fusermount3";
    std::string flags = lazy ? "-uz" : "-u";
    std::string quiet = "-q";
    std::string end = "--";
    std::string path = mountpoint;
    std::array<char*, 6> arguments{program.data(), flags.data(), quiet.data(),
                                   end.data(),     path.data(),  nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    for (const int descriptor : {0, 1, 2}) {
        ::posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0);
    }
    pid_t child = -1;
    const int code = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (code != 0) return fail(system_error(code, "fusermount3 could not be started"));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return fail(system_error(errno, "fusermount3"));
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    return fail(EBUSY, "fusermount3 could not unmount " + mountpoint);
}

// The flags that libfuse and fusermount3 know, but for those that are always said.
constexpr std::uint32_t kFlagsOfLibfuse = MS_NOEXEC | MS_NOATIME | MS_SYNCHRONOUS | MS_DIRSYNC;

/// All flags but those of the file system itself (sync, dirsync), as fsmount(2) and mount_setattr(2) have
/// them.
unsigned attributes_of(std::uint32_t flags) {
    constexpr std::array<std::pair<std::uint32_t, unsigned>, 7> same = {
        {{MS_RDONLY, MOUNT_ATTR_RDONLY},
         {MS_NOSUID, MOUNT_ATTR_NOSUID},
         {MS_NODEV, MOUNT_ATTR_NODEV},
         {MS_NOEXEC, MOUNT_ATTR_NOEXEC},
         {MS_NOATIME, MOUNT_ATTR_NOATIME},
         {MS_NODIRATIME, MOUNT_ATTR_NODIRATIME},
         {MS_NOSYMFOLLOW, MOUNT_ATTR_NOSYMFOLLOW}}};
    unsigned attributes = 0;
    for (const auto& [flag, attribute] : same) attributes |= (flags & flag) != 0 ? attribute : 0;
    return attributes;
}

/// Gives the new mount the flags that libfuse does not know.
Result<void> set_flags(const Settings& settings) {
    const auto flags = settings.mount_flags & (MS_NODIRATIME | MS_NOSYMFOLLOW);
    if (flags == 0) return {};
    mount_attr wanted{};
    wanted.attr_set = attributes_of(flags);
    if (::mount_setattr(AT_FDCWD, settings.mountpoint.c_str(), AT_SYMLINK_NOFOLLOW, &wanted,
                        sizeof(wanted)) == 0)
        return {};
    if (errno != EPERM) return fail(system_error(errno, flag_names(flags)));
    // Nothing that is read through a mount has its access time changed: that holds without the flag.
    if (flags == MS_NODIRATIME) return {};
    return fail(EPERM, flag_names(flags) + ": only root can mount so: leave it out, or mount as root");
}

/// While it lives, what is written on standard error goes to memory: fusermount3 says there why it refuses.
/// In a process without threads.
class HeardErrors {
  public:
    HeardErrors()
        : heard_(::memfd_create("tierfs-words", MFD_CLOEXEC)), before_(::fcntl(2, F_DUPFD_CLOEXEC, 3)) {
        if (heard_ && before_) ::dup2(heard_.get(), 2);
    }
    ~HeardErrors() {
        if (heard_ && before_) ::dup2(before_.get(), 2);
    }
    HeardErrors(const HeardErrors&) = delete;
    HeardErrors& operator=(const HeardErrors&) = delete;
    [[nodiscard]] std::string words() const {
        std::array<char, 1024> text{};
        const auto count = heard_ ? ::pread(heard_.get(), text.data(), text.size(), 0) : 0;
        return std::string(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    }

  private:
    FileDescriptor heard_, before_;
};

/// The words of libfuse and fusermount3 on one line, and what to do about them.
std::string why_not_mounted(std::string words) {
    while (!words.empty() && words.back() == '\n') words.pop_back();
    for (std::size_t at = 0; (at = words.find('\n', at)) != std::string::npos; at += 2)
        words.replace(at, 1, "; ");
    if (words.find("user_allow_other") != std::string::npos)
        words += ": root writes the line user_allow_other there, or leave allow_other out, or mount as root";
    if (words.find("mount_max") != std::string::npos) words += " (mount_max in /etc/fuse.conf)";
    return words.empty() ? "libfuse failed" : words;
}

/// The root of the kernel's fusectl, mounted nowhere.
FileDescriptor open_fuse_connections() {
    const FileDescriptor control(::fsopen("fusectl", FSOPEN_CLOEXEC));
    if (!control || ::fsconfig(control.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
    return FileDescriptor(::fsmount(control.get(), FSMOUNT_CLOEXEC, 0));
}

}  // namespace

bool is_mounted(const std::string& mountpoint, const std::string& device) {
    const auto mounts = read_mountinfo();
    if (!mounts) return true;
    const auto found = find_mount(*mounts, mountpoint);
    return found && found->device() == device;
}

std::string mount_options(const Settings& settings) {
    const auto flags = all_mount_flags(settings);
    std::string options = settings.read_only ? "ro" : "rw";
    options += (flags & MS_NODEV) != 0 ? ",nodev" : ",dev";
    options += (flags & MS_NOSUID) != 0 ? ",nosuid" : ",suid";
    if (const auto more = flag_names(flags & kFlagsOfLibfuse); !more.empty()) options += "," + more;
    // Modes and owners of the origin are enforced, also when only the one who mounted may come in.
    options += ",default_permissions,subtype=tierfs,fsname=" + escaped(settings.source);
    if (settings.allow_other) options += ",allow_other";
    return options;
}

namespace {

/// A mount that lies nowhere yet.
struct LooseMount {
    FuseMount mount;
    FileDescriptor root;
};

/// By the mount system calls that libfuse has none of. Errors: this process must not, or the kernel is old.
Result<LooseMount> make_loose(const Settings& settings) {
    LooseMount made;
    auto& device = made.mount.device;
    device.reset(TIERFS_FAULT_CALL("fuse.device", ::open("/dev/fuse", O_RDWR | O_CLOEXEC)));
    if (!device) return fail(system_error(errno, "/dev/fuse"));
    const FileDescriptor system(::fsopen("fuse", FSOPEN_CLOEXEC));
    if (!system) return fail(system_error(errno, "fsopen"));
    const auto set = [&system](const char* key, const std::string& value) {
        return ::fsconfig(system.get(), FSCONFIG_SET_STRING, key, value.c_str(), 0) == 0;
    };
    const auto flag = [&system](const char* key, bool wanted) {
        return !wanted || ::fsconfig(system.get(), FSCONFIG_SET_FLAG, key, nullptr, 0) == 0;
    };
    const bool is_made = set("source", settings.source) && set("subtype", "tierfs") &&
                         set("fd", std::to_string(device.get())) && set("rootmode", "40000") &&
                         set("user_id", std::to_string(::getuid())) &&
                         set("group_id", std::to_string(::getgid())) && flag("default_permissions", true) &&
                         flag("allow_other", settings.allow_other) && flag("ro", settings.read_only) &&
                         flag("sync", (settings.mount_flags & MS_SYNCHRONOUS) != 0) &&
                         flag("dirsync", (settings.mount_flags & MS_DIRSYNC) != 0) &&
                         ::fsconfig(system.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) == 0;
    if (!is_made) return fail(system_error(errno, "fsconfig"));
    made.root.reset(::fsmount(system.get(), FSMOUNT_CLOEXEC, attributes_of(all_mount_flags(settings))));
    if (!made.root) return fail(system_error(errno, "fsmount"));
    return made;
}

Result<void> put(const LooseMount& made, const std::string& mountpoint, unsigned flags) {
    const auto place = MountPlace::hold(mountpoint);
    if (!place) return fail(place.error());
    if (TIERFS_FAULT_CALL("fuse.mount",
                          ::move_mount(made.root.get(), "", place->directory(), place->name().c_str(),
                                       MOVE_MOUNT_F_EMPTY_PATH | flags)) == 0)
        return {};
    return fail(system_error(errno, "move_mount"));
}

/// A dead mount is worse than none.
void take_back(const std::string& mountpoint) {
    if (const auto place = MountPlace::hold(mountpoint))
        ::umount2(place->path().c_str(), UMOUNT_NOFOLLOW | MNT_DETACH);
}

Result<FuseMount> mount_by_libfuse(const Settings& settings) {
    std::array<std::string, 3> words{"tierfs", "-o", mount_options(settings)};
    std::array<char*, 4> arguments{words[0].data(), words[1].data(), words[2].data(), nullptr};
    fuse_args args = FUSE_ARGS_INIT(3, arguments.data());
    const fuse_lowlevel_ops none{};
    libfuse_words().clear();
    ::fuse_set_log_func(keep_words);
    fuse_session* session = ::fuse_session_new(&args, &none, sizeof(none), nullptr);
    bool mounted = false;
    {
        const HeardErrors errors;
        mounted = session != nullptr && ::fuse_session_mount(session, settings.mountpoint.c_str()) == 0;
        libfuse_words() += errors.words();
    }
    ::fuse_set_log_func(nullptr);
    ::fuse_opt_free_args(&args);
    if (!mounted) {
        if (session != nullptr) ::fuse_session_destroy(session);
        return fail(EIO, why_not_mounted(libfuse_words()));
    }
    FuseMount mount;
    // The session is only a handle here: the daemon makes its own. Destroying it would close the descriptor.
    mount.device.reset(::fcntl(::fuse_session_fd(session), F_DUPFD_CLOEXEC, 3));
    const int code = errno;
    ::fuse_session_destroy(session);
    if (mount.device) {
        auto set = set_flags(settings);
        if (set) return mount;
        take_back(settings.mountpoint);
        return fail(std::move(set.error()));
    }
    take_back(settings.mountpoint);
    return fail(system_error(code, "/dev/fuse"));
}

}  // namespace

Result<FuseMount> mount_fuse(const Settings& settings) {
    const auto failed = [&settings](const Error& error) {
        return fail(error.code, settings.mountpoint + " could not be mounted: " + error.message);
    };
    FuseMount mount;
    auto loose = ::geteuid() == 0 ? make_loose(settings) : fail(EPERM, "");
    if (loose) {
        if (auto done = put(*loose, settings.mountpoint, 0); !done) return failed(done.error());
        mount = std::move(loose->mount);
    } else {
        if (::geteuid() == 0)
            log::warning("mounting through libfuse, which follows links in the path: " +
                         loose.error().message);
        auto made = mount_by_libfuse(settings);
        if (!made) return failed(made.error());
        mount = std::move(*made);
    }
    auto number = device_of(settings.mountpoint);
    if (!number) {
        take_back(settings.mountpoint);
        return fail(std::move(number.error()));
    }
    mount.number = std::move(*number);
    return mount;
}

Result<FuseMount> mount_beneath(const Settings& settings) {
    constexpr unsigned kBeneath = 0x200;  // MOVE_MOUNT_BENEATH, which Debian 12's headers lack
    auto loose = make_loose(settings);
    if (!loose) return fail(std::move(loose.error()));
    if (auto done = put(*loose, settings.mountpoint, kBeneath); !done) return fail(std::move(done.error()));
    return std::move(loose->mount);
}

Result<void> unmount_fuse(const std::string& mountpoint, const std::string& device, bool lazy) {
    if (!is_mounted(mountpoint, device)) return {};
    const int flags = UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0);
    const auto place = MountPlace::hold(mountpoint);
    if (!place) return fail(place.error().within("unmounting"));
    if (TIERFS_FAULT_CALL("fuse.umount", ::umount2(place->path().c_str(), flags)) == 0) return {};
    const int code = errno;
    if (code == EPERM) return run_fusermount(mountpoint, lazy);
    if (!is_mounted(mountpoint, device)) return {};
    return fail(system_error(code, "unmounting " + mountpoint));
}

Result<void> unmount_with_grace(const std::string& mountpoint, const std::string& device,
                                std::chrono::milliseconds grace) {
    const auto deadline = std::chrono::steady_clock::now() + grace;
    while (true) {
        auto done = unmount_fuse(mountpoint, device, false);
        if (done || done.error().code != EBUSY) return done;
        if (std::chrono::steady_clock::now() >= deadline) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return unmount_fuse(mountpoint, device, true);
}

bool is_connected(const FuseMount& mount) {
    pollfd wanted{mount.device.get(), POLLIN, 0};
    return ::poll(&wanted, 1, 0) <= 0 || (wanted.revents & (POLLERR | POLLNVAL)) == 0;
}

Result<void> abort_connection(const FuseMount& mount) {
    if (!is_connected(mount)) return {};
    const auto minor = mount.number.substr(mount.number.find(':') + 1);
    const std::string path = "/sys/fs/fuse/connections/" + minor + "/abort";
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) {
        const int code = errno;
        // In a container nothing may be mounted there; root can look at the same without mounting it.
        const FileDescriptor connections = open_fuse_connections();
        if (connections)
            file.reset(::openat(connections.get(), (minor + "/abort").c_str(), O_WRONLY | O_CLOEXEC));
        if (!file) return fail(system_error(code, path));
    }
    if (TIERFS_FAULT_CALL("fuse.abort", ::write(file.get(), "1", 1)) != 1)
        return fail(system_error(errno, path));
    return {};
}

void set_read_ahead(const std::string& device, unsigned kibibytes) {
    if (TIERFS_FAULT("fuse.readahead") != 0) return;  // only slower
    std::ofstream("/sys/class/bdi/" + device + "/read_ahead_kb") << kibibytes << "\n";
}

}  // namespace tierfs
