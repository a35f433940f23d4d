#include "backends/dir/beneath.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <thread>

#include "backends/origin/posix_origin.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/time.hpp"

namespace tierfs {

namespace {

constexpr unsigned kAttemptsAtOnce = 16;  // races with renames are over by then
constexpr std::chrono::milliseconds kBetweenAttempts{10};

}  // namespace

// A new descriptor gets the lowest number that is free.
FileDescriptor within_limit(FileDescriptor descriptor, bool is_for_locks) {
    rlimit limit{};
    if (!descriptor || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return descriptor;
    const auto reserved =
        is_for_locks ? limit.rlim_cur / 4 : std::min(kReservedDescriptors, limit.rlim_cur / 8);
    if (static_cast<rlim_t>(descriptor.get()) < limit.rlim_cur - reserved) return descriptor;
    descriptor.reset();
    errno = EMFILE;
    return descriptor;
}

Result<FileDescriptor> open_beneath(int root, const std::string& path, int flags,
                                    std::chrono::milliseconds patience) {
    struct open_how how {};
    how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const char* name = path.empty() ? "." : path.c_str();
    const auto limit = std::chrono::steady_clock::now() + patience;
    for (unsigned attempt = 1;; ++attempt) {
        const long descriptor =
            TIERFS_FAULT_CALL("dir.open", ::syscall(SYS_openat2, root, name, &how, sizeof(how)));
        if (descriptor >= 0) return FileDescriptor(static_cast<int>(descriptor));
        if (errno == EINTR) continue;
        // EAGAIN: a rename or mount raced with the resolution, and the kernel asks to try again (openat2(2));
        // or, with O_NONBLOCK, the file carries a lease that its holder has not given back yet (fcntl(2)).
        if (errno == EAGAIN) {
            if (attempt <= kAttemptsAtOnce) continue;
            if (std::chrono::steady_clock::now() >= limit)
                return fail(
                    system_error(ETIMEDOUT, "'" + path + "' in the source directory (held by a lease?)"));
            std::this_thread::sleep_for(kBetweenAttempts);
            continue;
        }
        const int code = (errno == EXDEV || errno == ELOOP) ? ENOENT : errno;
        return fail(system_error(code, "'" + path + "' in the source directory"));
    }
}

BeneathStat to_attributes(const struct stat& status) {
    BeneathStat result;
    Attributes& attributes = result.attributes;
    if (S_ISDIR(status.st_mode)) {
        attributes.kind = ObjectKind::directory;
    } else if (S_ISLNK(status.st_mode)) {
        attributes.kind = ObjectKind::symlink;
    } else {
        result.is_special = !S_ISREG(status.st_mode);
    }
    attributes.size =
        attributes.kind == ObjectKind::directory ? 0 : static_cast<std::uint64_t>(status.st_size);
    attributes.mtime_ns = to_ns(status.st_mtim);
    attributes.ctime_ns = to_ns(status.st_ctim);
    attributes.mode = status.st_mode & 07777U;
    attributes.uid = status.st_uid;
    attributes.gid = status.st_gid;
    attributes.nlink = static_cast<std::uint32_t>(status.st_nlink);
    if (attributes.kind != ObjectKind::directory) {
        if (status.st_nlink > 1) attributes.link = link_of(status.st_dev, status.st_ino);
        attributes.version = std::to_string(status.st_ino) + ':' + std::to_string(attributes.size) + ':' +
                             std::to_string(attributes.mtime_ns) + ':' + std::to_string(attributes.ctime_ns);
    }
    return result;
}

}  // namespace tierfs
