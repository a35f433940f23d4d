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
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/log_lines.hpp"
#include "fs/cli/say.hpp"
#include "fs/cli/signals.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/flush.hpp"
#include "fs/commands/parse.hpp"
#include "fs/control/control.hpp"
#include "fs/control/mountinfo.hpp"
#include "fs/daemon/mount_checks.hpp"
#include "fs/daemon/mount_in_place.hpp"
#include "fs/daemon/unmount.hpp"

namespace tierfs {

namespace {

namespace fs = std::filesystem;
constexpr int kEndPatienceMs = 90'000;  // a little more than the supervisor gives the daemon
constexpr int kLazyPatienceMs = 1'000;
constexpr int kMostTries = 20;
constexpr std::chrono::milliseconds kBetweenTries{100};

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

/// Names of the processes of which it is true, by their folders in /proc; a few of them.
std::string processes_that(const std::function<bool(const fs::path&)>& is_one) {
    std::string text;
    int count = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
        const auto pid = entry.path().filename().string();
        if (!std::all_of(pid.begin(), pid.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
            continue;
        if (!is_one(entry.path())) continue;
        if (++count > 5) return text + ", and more";
        std::string name;
        std::getline(std::ifstream(entry.path() / "comm"), name);
        text += (text.empty() ? "" : ", ") + name + " (pid " + pid + ")";
    }
    return text;
}

std::string who_holds(const std::string& mountpoint) {
    return processes_that([&](const fs::path& process) { return holds(process, mountpoint); });
}

/// The same file system, wherever it is mounted. Device numbers are used again at once, so that the number alone says
/// little.
const MountEntry* copy_of(const MountEntry& mount, const std::vector<MountEntry>& mounts) {
    const auto found = std::find_if(mounts.begin(), mounts.end(), [&](const MountEntry& other) {
        return other.device() == mount.device() && other.source == mount.source && other.type == mount.type;
    });
    return found == mounts.end() ? nullptr : &*found;
}

// A mount namespace that is made (a container, a service with PrivateMounts=) has copies of all mounts, and a mount
// that is taken away goes on where its copies do not follow, as it does at other places here. One process of each
// namespace is named.
std::string where_it_goes_on(const MountEntry& mount) {
    const auto here = read_mountinfo();
    if (const auto* const copy = here ? copy_of(mount, *here) : nullptr)
        return "it is mounted on " + copy->mountpoint + ", too; unmount that";
    std::error_code error;
    std::set<std::string> looked_at{fs::read_symlink("/proc/self/ns/mnt", error).string()};
    const auto others = processes_that([&](const fs::path& process) {
        std::error_code ended;
        const auto space = fs::read_symlink(process / "ns/mnt", ended).string();
        if (ended || !looked_at.insert(space).second) return false;
        std::ifstream file(process / "mountinfo");
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        return copy_of(mount, parse_mountinfo(text)) != nullptr;
    });
    if (others.empty()) return {};
    return "other mount namespaces have copies of the mount: that of " + others +
           "; it ends when they end or unmount it";
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
    bool only_dead = false;
    bool leave = false;
    CLI::App app("Ends a mount and waits until its daemon has gone", "tierfs umount");
    app.add_option("MOUNTPOINT", path, "a tierfs mount")->required();
    app.add_flag("--lazy", lazy, "take it out of sight now; it ends when the last file is closed");
    app.add_flag(
        "--leave", leave,
        "of a mount with writes=back: do not wait until the bucket has all that is in the journal; the next mount "
        "of the same source with the same journal.path goes on");
    app.add_flag("--dead", only_dead, "take away a dead mount alone: nothing is done where there is none");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    if (only_dead) {
        const auto dead = take_dead_mounts(path);
        return dead ? 0 : command_failed(dead.error().message);
    }
    const auto mount = find_tierfs_mount(path);
    if (!mount) return command_failed(mount.error().message);
    // Started inside the mount, this very command would hold it.
    if (::chdir("/") != 0) return command_failed(system_error(errno, "/").message);
    const auto address = control_of(*mount);
    const auto process = supervisor_of(address);
    if (!process) {
        const auto dead = take_dead_mounts(mount->mountpoint);
        if (!dead && address) return command_failed(dead.error().message);
        if (dead && *dead != 0) return 0;
    }
    if (process && address && !leave && !lazy) {
        StopFlag stop;
        const Signals signals(stop);
        const auto flushed = flush_mount(*address, stop);
        // One that does not answer is to be unmounted all the same: the journal stays.
        if (!flushed && (flushed.error().code == EAGAIN || flushed.error().code == EINTR))
            return command_failed(mount->mountpoint + " is still mounted: " + flushed.error().message +
                                  "; `tierfs umount --leave` leaves it there for the next mount");
    }
    auto done = unmount_fuse(mount->mountpoint, mount->device(), lazy);
    std::string holders;
    // What nobody has open may be held for a moment all the same: by who just ended, or looks around in /proc.
    for (int tries = 0; !done && done.error().code == EBUSY && tries < kMostTries; ++tries) {
        holders = who_holds(mount->mountpoint);
        if (!holders.empty()) break;
        std::this_thread::sleep_for(kBetweenTries);
        done = unmount_fuse(mount->mountpoint, mount->device(), lazy);
    }
    if (!done) {
        if (!address && address.error().code == EACCES) return command_failed(address.error().message);
        if (done.error().code != EBUSY) return command_failed(done.error().message);
        return command_failed(mount->mountpoint + " is busy: " +
                              (holders.empty() ? "something holds it open" : holders + " hold it open") +
                              "; end them, or use --lazy");
    }
    if (!process) return 0;
    if (wait_for_end(process, kLazyPatienceMs)) return 0;
    if (!lazy) {
        if (const auto goes_on = where_it_goes_on(*mount); !goes_on.empty())
            return command_failed(mount->mountpoint + " is unmounted, but its daemon goes on: " + goes_on);
    }
    if (!lazy && wait_for_end(process, kEndPatienceMs)) return 0;
    if (!lazy)
        return command_failed(mount->mountpoint + " is unmounted, but its daemon has not ended: see its log");
    sayf(stderr, "tierfs: %s is out of sight; it ends when the last file on it is closed\n",
         log::escaped(mount->mountpoint).c_str());
    return 0;
}

}  // namespace tierfs
