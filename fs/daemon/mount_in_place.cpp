#include "fs/daemon/mount_in_place.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "config/base/log.hpp"
#include "fs/control/control.hpp"
#include "fs/control/dead_mount.hpp"
#include "fs/daemon/folder_locks.hpp"
#include "fs/daemon/unmount.hpp"

namespace tierfs {

namespace {

using Clock = std::chrono::steady_clock;
constexpr unsigned kMostDead = 100;  // upon each other; who mounts that often meanwhile is not waited for
constexpr auto kLockPatience = std::chrono::seconds(30);  // others hold it while they ask a mount and mount
constexpr auto kPatienceWithEnd = std::chrono::seconds(10);  // for a mount that is ending
constexpr auto kPause = std::chrono::milliseconds(100);

constexpr const char* kTooMany = " has too many dead mounts upon each other";

/// The mounts of tierfs on that mount point that nothing else lies on top of, the topmost last.
Result<std::vector<MountEntry>> tierfs_mounts_on(const std::string& mountpoint) {
    const auto mounts = read_mountinfo();
    if (!mounts) return fail(mounts.error());
    auto stack = mounts_on(*mounts, mountpoint);
    const auto other =
        std::find_if(stack.rbegin(), stack.rend(), [](const auto& mount) { return !mount.is_tierfs(); });
    stack.erase(stack.begin(), other.base());
    return stack;
}

FileDescriptor lock_starters() {
    auto made = make_control_directory();
    auto lock = made ? lock_folder(control_directory(), kLockPatience) : fail(made.error());
    if (lock) return std::move(*lock);
    log::warning(lock.error().message + ": another start on the same mount point is not seen");
    return {};
}

/// Takes a dead mount away, and its socket: the mount's number is free for others from now on.
Result<void> take(const MountEntry& mount) {
    const auto socket = control_path(mount.device());
    const auto identity = socket_identity(socket);
    if (auto done = unmount_fuse(mount.mountpoint, mount.device(), true); !done) return fail(done.error());
    remove_socket(socket, identity);
    log::warning("the dead mount of " + mount.source + " on " + mount.mountpoint + " was taken away");
    return {};
}

/// A new mount in the place of a dead one.
Result<FuseMount> replace(const MountEntry& dead, const Settings& settings) {
    auto mount = mount_beneath(settings);
    if (!mount) log::debug("mounting beneath the dead mount: " + mount.error().message);
    if (auto taken = take(dead); !taken) return fail(taken.error());
    if (!mount) return mount_fuse(settings);
    const auto there = tierfs_mounts_on(settings.mountpoint);
    if (!there) return fail(there.error());
    if (there->empty()) return fail(EIO, settings.mountpoint + " was unmounted again at once");
    mount->number = there->back().device();
    return mount;
}

}  // namespace

std::string mounted_already(const std::string& mountpoint, const std::string& source) {
    return mountpoint + " is a tierfs mount of " + source + " already: end it first with `tierfs umount " +
           mountpoint + "`";
}

Result<unsigned> take_dead_mounts(const std::string& mountpoint) {
    const auto place = follow_mountpoint(mountpoint);
    if (!place) return fail(place.error());
    for (unsigned taken = 0; taken < kMostDead; ++taken) {
        const auto there = tierfs_mounts_on(*place);
        if (!there) return fail(there.error());
        if (there->empty() || pulse_of(there->back()) != Pulse::dead) return taken;
        if (auto done = take(there->back()); !done) return fail(done.error());
    }
    return fail(EBUSY, mountpoint + kTooMany);
}

Result<MountInPlace> mount_in_place(const Settings& settings) {
    const auto deadline = Clock::now() + kPatienceWithEnd;
    MountInPlace made;
    while (made.dead < kMostDead) {
        if (!made.lock) made.lock = lock_starters();
        const auto there = tierfs_mounts_on(settings.mountpoint);
        if (!there) return fail(there.error());
        const auto pulse = there->empty() ? Pulse::dead : pulse_of(there->back());
        if (pulse == Pulse::alive || (pulse == Pulse::ending && Clock::now() >= deadline))
            return fail(EBUSY, mounted_already(settings.mountpoint, there->back().source));
        if (pulse == Pulse::ending) {
            made.lock.reset();
            std::this_thread::sleep_for(kPause);
        } else if (there->size() > 1) {  // one of tierfs lies below it: the directory does not come to light
            if (auto taken = take(there->back()); !taken) return fail(taken.error());
            ++made.dead;
        } else {
            auto mount = there->empty() ? mount_fuse(settings) : replace(there->back(), settings);
            if (!mount) return fail(mount.error());
            made.mount = std::move(*mount);
            made.dead += static_cast<unsigned>(there->size());
            return made;
        }
    }
    return fail(EBUSY, settings.mountpoint + kTooMany);
}

}  // namespace tierfs
