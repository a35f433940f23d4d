#include "fs/daemon/mount_place.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace tierfs {

Result<MountPlace> MountPlace::hold(const std::string& mountpoint) {
    constexpr int kMostRaces = 100;
    const std::filesystem::path path(mountpoint);
    const auto parent = path.parent_path().string();
    open_how how{};
    how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS;
    long opened = -1;
    for (int turn = 0; turn < kMostRaces && opened < 0; ++turn) {
        opened = ::syscall(SYS_openat2, AT_FDCWD, parent.c_str(), &how, sizeof(how));
        if (opened < 0 && errno != EAGAIN && errno != EINTR)
            break;  // EAGAIN: something was renamed meanwhile
    }
    if (opened < 0 && errno == ELOOP)
        return fail(ELOOP, "a part of the path " + mountpoint + " has become a symbolic link");
    if (opened < 0) return fail(system_error(errno, parent));
    return MountPlace(FileDescriptor(static_cast<int>(opened)), path.filename().string());
}

std::string MountPlace::path() const {
    return "/proc/self/fd/" + std::to_string(directory_.get()) + "/" + name_;
}

}  // namespace tierfs
