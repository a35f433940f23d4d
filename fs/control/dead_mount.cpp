#include "fs/control/dead_mount.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>

#include "config/base/file_descriptor.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(5);

/// The root of that mount; the mount is not asked for it. None: another one lies on top.
FileDescriptor root_of(const MountEntry& mount) {
    FileDescriptor root(::open(mount.mountpoint.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct statx found {};
    if (!root || ::statx(root.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &found) != 0 ||
        found.stx_dev_major != mount.major || found.stx_dev_minor != mount.minor)
        return {};
    return root;
}

/// In a child: says the errno of statfs(2). Without allow_other the mount answers who mounted it alone. The
/// call may hang, so nothing that somebody waits for stays open.
[[noreturn]] void ask(int root, int answer, const MountEntry& mount) {
    if (::dup2(root, 0) != 0 || ::dup2(answer, 1) != 1) ::_exit(1);
    ::close_range(2, ~0U, 0);
    const uid_t owner = mount.owner().value_or(0);
    const gid_t group = mount.group().value_or(owner);
    if (::geteuid() == 0 && owner != 0 &&
        (::syscall(SYS_setgroups, 0, nullptr) != 0 || ::syscall(SYS_setresgid, group, group, group) != 0 ||
         ::syscall(SYS_setresuid, owner, owner, owner) != 0))
        ::_exit(1);
    struct statfs found {};
    const int code = ::fstatfs(0, &found) == 0 ? 0 : errno;
    ::_exit(::write(1, &code, sizeof(code)) == sizeof(code) ? 0 : 1);
}

/// What is written to the pipe; nothing when it ends before, or not in time.
std::optional<int> hear(int pipe) {
    const auto deadline = Clock::now() + kPatience;
    while (true) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd wanted{pipe, POLLIN, 0};
        const int ready = ::poll(&wanted, 1, std::max(0, static_cast<int>(left.count())));
        if (ready < 0 && errno == EINTR) continue;
        int code = 0;
        if (ready <= 0 || ::read(pipe, &code, sizeof(code)) != sizeof(code)) return std::nullopt;
        return code;
    }
}

/// errno of a call on the mount's root; nothing when it does not come in time, or nobody can ask.
std::optional<int> errno_of_mount(const MountEntry& mount) {
    const auto root = root_of(mount);
    std::array<int, 2> ends{-1, -1};
    if (!root || ::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
    const FileDescriptor reader(ends[0]);
    FileDescriptor writer(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return std::nullopt;
    if (child == 0) ask(root.get(), writer.get(), mount);
    writer.reset();
    const auto code = hear(reader.get());
    // One that hangs in the mount may die long after this: nobody waits for it.
    if (!code) ::kill(child, SIGKILL);
    while (::waitpid(child, nullptr, code ? 0 : WNOHANG) < 0 && errno == EINTR) continue;
    return code;
}

bool is_disconnected(const MountEntry& mount) {
    auto code = errno_of_mount(mount);
    if (code == ECONNABORTED) code = errno_of_mount(mount);  // the connection ended during the call
    return code == ENOTCONN || code == ECONNREFUSED;         // the latter: its start failed
}

bool is_listened_to(const MountEntry& mount) {
    const auto owner = mount.owner();
    if (control_owner({control_path(mount.device()), owner})) return true;
    if (!owner) return false;
    const auto paths = control_paths_of(*owner, mount.device());  // for root, and with another environment
    return std::any_of(paths.begin(), paths.end(), [owner](const std::string& path) {
        return control_owner({path, owner}).has_value();
    });
}

/// A word as a shell reads it.
std::string shell_word(const std::string& text) {
    const auto is_plain = [](unsigned char letter) {
        return std::isalnum(letter) != 0 ||
               std::string_view("%+,-./:=@_").find(static_cast<char>(letter)) != std::string_view::npos;
    };
    if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
    std::string quoted = "'";
    for (const char letter : text) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    return quoted + "'";
}

}  // namespace

Pulse pulse_of(const MountEntry& mount) {
    const bool is_gone = is_disconnected(mount);
    const bool is_heard = is_listened_to(mount);
    if (is_gone != is_heard) return is_gone ? Pulse::dead : Pulse::alive;
    return Pulse::ending;
}

std::string dead_mount_words(const MountEntry& mount) {
    const auto place = shell_word(mount.mountpoint);
    const bool is_writable = ("," + mount.super_options + ",").find(",rw,") != std::string::npos;
    return mount.mountpoint +
           " is a dead mount: its daemon has gone, and whatever is asked of it fails with " +
           "ENOTCONN. Mount it again, which takes the dead one away: `tierfs " + shell_word(mount.source) +
           " " + place + (is_writable ? " -o rw` and its other options" : "` and its options") + ", `mount " +
           place + "` if it is in /etc/fstab, `systemctl restart` of its unit. `tierfs umount " + place +
           "` only takes it away";
}

}  // namespace tierfs
