#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "config/base/file_descriptor.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/parse.hpp"
#include "fs/control/control.hpp"
#include "fs/daemon/mount_checks.hpp"
#include "fs/daemon/unmount.hpp"

namespace tierfs {

namespace {

namespace fs = std::filesystem;
constexpr int kEndPatienceMs = 90'000;  // a little more than the supervisor gives the daemon
constexpr int kLazyPatienceMs = 1'000;

// Links in /proc name paths without touching the mount.
bool holds(const fs::path& process, const std::string& mountpoint) {
    std::error_code error;
    for (const char* link : {"cwd", "root", "exe"}) {
        const auto target = fs::read_symlink(process / link, error);
        if (!error && mountpoint != "/" && is_within(target.string(), mountpoint)) return true;
    }
    for (const auto& file : fs::directory_iterator(process / "fd", error)) {
        std::error_code ignored;
        if (is_within(fs::read_symlink(file.path(), ignored).string(), mountpoint)) return true;
    }
    return false;
}

std::string who_holds(const std::string& mountpoint) {
    std::string text;
    int count = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
        const auto pid = entry.path().filename().string();
        if (!std::all_of(pid.begin(), pid.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
            continue;
        if (!holds(entry.path(), mountpoint)) continue;
        if (++count > 5) return text + ", and more";
        std::string name;
        std::getline(std::ifstream(entry.path() / "comm"), name);
        text += (text.empty() ? "" : ", ") + name + " (pid " + pid + ")";
    }
    return text;
}

/// Something to wait on for the end of the mount's processes, whether they answer or not; none when there is
/// no control socket.
FileDescriptor supervisor_of(const Result<ControlAddress>& address) {
    const auto pid = address ? control_owner(*address) : std::nullopt;
    if (!pid) return {};
    return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
}

bool wait_for_end(const FileDescriptor& process, int patience_ms) {
    pollfd wanted{process.get(), POLLIN, 0};
    int ready = 0;
    do {
        ready = ::poll(&wanted, 1, patience_ms);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

}  // namespace

int umount_command(const std::vector<std::string>& arguments) {
    std::string path;
    bool lazy = false;
    CLI::App app("Ends a mount and waits until its daemon has gone", "tierfs umount");
    app.add_option("MOUNTPOINT", path, "a tierfs mount")->required();
    app.add_flag("--lazy", lazy, "take it out of sight now; it ends when the last file is closed");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    const auto mount = find_tierfs_mount(path);
    if (!mount) return command_failed(mount.error().message);
    const auto address = control_of(*mount);
    const auto process = supervisor_of(address);
    const auto done = unmount_fuse(mount->mountpoint, mount->device(), lazy);
    if (!done) {
        if (!address && address.error().code == EACCES) return command_failed(address.error().message);
        if (done.error().code != EBUSY) return command_failed(done.error().message);
        const auto holders = who_holds(mount->mountpoint);
        return command_failed(mount->mountpoint + " is busy: " +
                              (holders.empty() ? "something holds it open" : holders + " hold it open") +
                              "; end them, or use --lazy");
    }
    if (!process) return 0;
    if (wait_for_end(process, lazy ? kLazyPatienceMs : kEndPatienceMs)) return 0;
    if (!lazy)
        return command_failed(mount->mountpoint + " is unmounted, but its daemon has not ended: see its log");
    std::fprintf(stderr, "tierfs: %s is out of sight; it ends when the last file on it is closed\n",
                 mount->mountpoint.c_str());
    return 0;
}

}  // namespace tierfs
