#include "fs/daemon/folder_locks.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "config/base/fault_point.hpp"

namespace tierfs {

namespace {

namespace fs = std::filesystem;

std::string pid_in(int descriptor) {
    std::array<char, 32> text{};
    const auto size = ::pread(descriptor, text.data(), text.size() - 1, 0);
    std::string pid(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    return pid.substr(0, pid.find('\n'));
}

/// EBUSY: somebody else has held it all the time.
int lock_within(int descriptor, std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (TIERFS_FAULT_CALL("lock.take", ::flock(descriptor, LOCK_EX | LOCK_NB)) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return errno;
        if (std::chrono::steady_clock::now() >= deadline) return EBUSY;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return 0;
}

Result<void> note_pid(int lock) {
    const auto pid = std::to_string(::getpid()) + "\n";
    if (TIERFS_FAULT_CALL("lock.truncate", ::ftruncate(lock, 0)) != 0 ||
        TIERFS_FAULT_CALL("lock.write", ::pwrite(lock, pid.data(), TIERFS_FAULT_SHORT(pid.size()), 0)) !=
            static_cast<ssize_t>(pid.size())) {
        return fail(system_error(errno, "the process id"));
    }
    return {};
}

/// The file may have been removed, or another device may lie there now.
bool is_lock_of(int lock, const fs::path& folder) {
    struct stat held {};
    struct stat found {};
    return ::fstat(lock, &held) == 0 && ::stat((folder / "lock").c_str(), &found) == 0 &&
           held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

}  // namespace

Result<FileDescriptor> lock_folder(const fs::path& folder, std::chrono::milliseconds patience) {
    const auto path = folder / "lock";
    FileDescriptor file(TIERFS_FAULT_CALL(
        "lock.open", ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)));
    if (!file) return fail(system_error(errno, path.string()));
    const int refused = lock_within(file.get(), patience);
    if (refused == EBUSY) {
        return fail(EBUSY, folder.string() + " is in use by another tierfs mount, pid " + pid_in(file.get()));
    }
    if (refused != 0) return fail(system_error(refused, path.string() + ": lock"));
    if (auto noted = note_pid(file.get()); !noted) return fail(noted.error().within(path.string()));
    return file;
}

void FolderLocks::hold(std::map<std::string, FileDescriptor> locks) {
    const MutexLock lock(mutex_);
    held_ = std::move(locks);
}

FileDescriptor FolderLocks::take_held(const fs::path& folder) {
    const MutexLock lock(mutex_);
    const auto found = held_.find(folder.native());
    if (found == held_.end()) return {};
    FileDescriptor file = std::move(found->second);
    held_.erase(found);
    return file;
}

void FolderLocks::tell(const std::string& folder, int descriptor) const {
    if (tell_) tell_(folder, descriptor);
}

Result<std::shared_ptr<const void>> FolderLocks::lock(const fs::path& folder,
                                                      std::chrono::milliseconds patience) {
    FileDescriptor file = take_held(folder);
    if (file && is_lock_of(file.get(), folder)) {
        [[maybe_unused]] const auto noted = note_pid(file.get());  // only for messages
    } else {
        if (file) tell(folder.native(), -1);
        file.reset();
        auto taken = lock_folder(folder, patience);
        if (!taken) return fail(taken.error());
        file = std::move(*taken);
        tell(folder.native(), file.get());
    }
    return std::shared_ptr<const void>(new FileDescriptor(std::move(file)),
                                       [this, name = folder.native()](const FileDescriptor* lock) {
                                           delete lock;
                                           tell(name, -1);
                                       });
}

void FolderLocks::give_up_the_rest() {
    const MutexLock lock(mutex_);
    for (const auto& [folder, file] : held_) tell(folder, -1);
    held_.clear();
}

}  // namespace tierfs
