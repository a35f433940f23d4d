#include "backends/s3/readwrite/local_copies.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "config/base/fault_point.hpp"
#include "config/base/time.hpp"

namespace tierfs::s3 {

Result<void> LocalCopy::write(std::span<const std::byte> bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
        const ssize_t now = TIERFS_FAULT_CALL(
            "s3.copy.write", ::pwrite(file_.get(), bytes.data(), TIERFS_FAULT_SHORT(bytes.size()),
                                      static_cast<off_t>(offset)));
        if (now < 0 && errno == EINTR) continue;
        if (now < 0) return fail(system_error(errno, "writing the local copy"));
        offset += static_cast<std::uint64_t>(now);
        bytes = bytes.subspan(static_cast<std::size_t>(now));
    }
    return {};
}

Result<void> LocalCopy::read(std::span<std::byte> destination, std::uint64_t offset) const {
    while (!destination.empty()) {
        const ssize_t now = TIERFS_FAULT_CALL(
            "s3.copy.read", ::pread(file_.get(), destination.data(), TIERFS_FAULT_SHORT(destination.size()),
                                    static_cast<off_t>(offset)));
        if (now < 0 && errno == EINTR) continue;
        if (now < 0) return fail(system_error(errno, "reading the local copy"));
        if (now == 0) {
            std::fill(destination.begin(), destination.end(), std::byte{0});
            return {};
        }
        offset += static_cast<std::uint64_t>(now);
        destination = destination.subspan(static_cast<std::size_t>(now));
    }
    return {};
}

Result<void> LocalCopy::resize(std::uint64_t size) {
    if (TIERFS_FAULT_CALL("s3.copy.truncate", ::ftruncate(file_.get(), static_cast<off_t>(size))) != 0)
        return fail(system_error(errno, "resizing the local copy"));
    return {};
}

Result<void> LocalCopy::punch(std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return {};
    if (::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                    static_cast<off_t>(end - begin)) != 0)
        return fail(system_error(errno, "giving back room of the local copy"));
    return {};
}

Result<void> LocalCopy::sync() {
    if (TIERFS_FAULT_CALL("s3.copy.sync", ::fdatasync(file_.get())) != 0)
        return fail(system_error(errno, "syncing the local copy"));
    return {};
}

Result<void> LocalCopy::copy_to(LocalCopy& other, std::uint64_t size) const {
    if (size != 0 && ::ioctl(other.file_.get(), FICLONE, file_.get()) == 0) return other.resize(size);
    off_t from = 0, to = 0;
    while (static_cast<std::uint64_t>(from) < size) {
        const auto now = ::copy_file_range(file_.get(), &from, other.file_.get(), &to,
                                           size - static_cast<std::uint64_t>(from), 0);
        if (now < 0 && errno == EINTR) continue;
        if (now < 0) return fail(system_error(errno, "copying the local copy"));
        if (now == 0) break;
    }
    return other.resize(size);
}

Result<LocalCopy::Stamp> LocalCopy::stamp() const {
    struct stat found {};
    if (TIERFS_FAULT_CALL("s3.copy.stat", ::fstat(file_.get(), &found)) != 0)
        return fail(system_error(errno, "looking at the local copy"));
    return Stamp{to_ns(found.st_mtim.tv_sec, found.st_mtim.tv_nsec),
                 static_cast<std::uint64_t>(found.st_size)};
}

Result<void> LocalCopy::is_written_back() const {
    if (TIERFS_FAULT_CALL("s3.copy.written",
                          ::sync_file_range(file_.get(), 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE)) != 0)
        return fail(system_error(errno, "writing the local copy"));
    return {};
}

Result<std::uint64_t> LocalCopy::share_with(LocalCopy& other) const {
    if (TIERFS_FAULT_CALL("s3.copy.clone", ::ioctl(other.file_.get(), FICLONE, file_.get())) != 0)
        return fail(system_error(errno, "sharing the blocks of the local copy"));
    const auto now = other.stamp();
    if (!now) return fail(now.error());
    return now->size;
}

bool LocalCopy::is_open_nowhere_else() const {
    if (TIERFS_FAULT_CALL("s3.copy.lease", ::fcntl(file_.get(), F_SETLEASE, F_WRLCK)) != 0) return false;
    ::fcntl(file_.get(), F_SETLEASE, F_UNLCK);
    return true;
}

std::uint64_t LocalCopy::allocated() const {
    struct stat found {};
    return ::fstat(file_.get(), &found) == 0 ? static_cast<std::uint64_t>(found.st_blocks) * 512 : 0;
}

std::uint64_t LocalCopy::free_space() const {
    struct statvfs found {};
    return ::fstatvfs(file_.get(), &found) == 0 ? found.f_bavail * found.f_frsize : 0;
}

Result<std::shared_ptr<LocalCopy>> LocalCopies::make() const {
    Error last{ENOENT, "there is no folder for local copies of what is written"};
    for (const auto& folder : folders_) {
        FileDescriptor file(
            TIERFS_FAULT_CALL("s3.copy.open", ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)));
        if (!file && (errno == EOPNOTSUPP || errno == EISDIR)) {  // the file system does not know O_TMPFILE
            std::string name = folder + "/.tierfs-XXXXXX";
            file.reset(::mkostemp(name.data(), O_CLOEXEC));
            if (file) ::unlink(name.c_str());
        }
        if (file) return std::make_shared<LocalCopy>(std::move(file));
        last = system_error(errno, "a local copy in " + folder);
    }
    return fail(std::move(last));
}

}  // namespace tierfs::s3
