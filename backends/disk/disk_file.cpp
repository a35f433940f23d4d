#include "backends/disk/disk_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "config/base/fault_point.hpp"
#include "config/base/time.hpp"

namespace tierfs {

// One name for each use of a file and each operation.
#if TIERFS_TEST_POINTS
namespace {

using fault::Point;

struct DiskPoints {
    Point create, open, read, write, truncate, stat;
};
// NOLINTNEXTLINE: test builds only
DiskPoints disk_points[] = {
    {Point("nvme.extent.create"), Point("nvme.extent.open"), Point("nvme.extent.read"),
     Point("nvme.extent.write"), Point("nvme.extent.truncate"), Point("nvme.extent.stat")},
    {Point("nvme.data.create"), Point("nvme.data.open"), Point("nvme.data.read"), Point("nvme.data.write"),
     Point("nvme.data.truncate"), Point("nvme.data.stat")},
    {Point("nvme.sidecar.create"), Point("nvme.sidecar.open"), Point("nvme.sidecar.read"),
     Point("nvme.sidecar.write"), Point("nvme.sidecar.truncate"), Point("nvme.sidecar.stat")}};

}  // namespace
#define TIERFS_DISK_CALL(use, operation, ...) \
    (disk_points[static_cast<int>(use)].operation.fails() ? -1 : (__VA_ARGS__))
#else
#define TIERFS_DISK_CALL(use, operation, ...) (__VA_ARGS__)
#endif

Result<DiskFile> DiskFile::open(const std::filesystem::path& path, const DiskFileMode& mode) {
    int flags = O_CLOEXEC | O_NOFOLLOW | (mode.write || mode.create ? O_RDWR : O_RDONLY);
    if (mode.create) flags |= O_CREAT;
    if (mode.truncate) flags |= O_TRUNC;
    if (mode.direct) flags |= O_DIRECT;
    FileDescriptor fd(mode.create ? TIERFS_DISK_CALL(mode.use, create, ::open(path.c_str(), flags, 0600))
                                  : TIERFS_DISK_CALL(mode.use, open, ::open(path.c_str(), flags, 0600)));
    if (!fd && errno == EINVAL && mode.direct) fd.reset(::open(path.c_str(), flags & ~O_DIRECT, 0600));
    if (!fd) return fail(system_error(errno, path.native() + ": open"));
    return DiskFile(std::move(fd), path.native(), mode.use);
}

tl::unexpected<Error> DiskFile::error(int code, const char* what) const {
    return fail(system_error(code, path_ + ": " + what));
}

bool DiskFile::direct() const {
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) != 0;
}

bool DiskFile::give_up_direct() const {
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) != 0 && ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) == 0;
}

Result<std::size_t> DiskFile::read(std::span<std::byte> out, std::uint64_t offset) const {
    std::size_t done = 0;
    while (done < out.size()) {
        const ssize_t got =
            TIERFS_DISK_CALL(use_, read,
                             ::pread(fd_.get(), out.data() + done, TIERFS_FAULT_SHORT(out.size() - done),
                                     static_cast<off_t>(offset + done)));
        if (got > 0) {
            done += static_cast<std::size_t>(got);
            continue;
        }
        if (got == 0) break;
        if (errno == EINTR) continue;
        // A short direct read leaves an odd rest, which only the end of the file does: nothing follows.
        if (errno == EINVAL && done % kDiskAlignment != 0) break;
        if (errno == EINVAL && give_up_direct()) continue;
        return error(errno, "read");
    }
    return done;
}

Result<void> DiskFile::write(std::span<const std::byte> data, std::uint64_t offset) const {
    std::size_t done = 0;
    while (done < data.size()) {
        const ssize_t put =
            TIERFS_DISK_CALL(use_, write,
                             ::pwrite(fd_.get(), data.data() + done, TIERFS_FAULT_SHORT(data.size() - done),
                                      static_cast<off_t>(offset + done)));
        if (put > 0) {
            done += static_cast<std::size_t>(put);
            continue;
        }
        if (put == 0) return error(EIO, "write");
        if (errno == EINTR) continue;
        if (errno == EINVAL && give_up_direct()) continue;
        return error(errno, "write");
    }
    return {};
}

Result<void> DiskFile::preallocate(std::uint64_t bytes) const {
    while (TIERFS_FAULT_CALL("nvme.extent.allocate",
                             ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes))) != 0) {
        if (errno != EINTR) return error(errno, "fallocate");
    }
    return {};
}

Result<void> DiskFile::truncate(std::uint64_t bytes) const {
    while (TIERFS_DISK_CALL(use_, truncate, ::ftruncate(fd_.get(), static_cast<off_t>(bytes))) != 0) {
        if (errno != EINTR) return error(errno, "truncate");
    }
    return {};
}

Result<void> DiskFile::punch_hole(std::uint64_t offset, std::uint64_t length) const {
    while (::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(length)) != 0) {
        if (errno != EINTR) return error(errno, "punch hole");
    }
    return {};
}

Result<void> DiskFile::sync_data() const {
    if (TIERFS_FAULT_CALL("nvme.data.sync", ::fdatasync(fd_.get())) != 0) return error(errno, "fdatasync");
    return {};
}

std::optional<DiskFileRange> DiskFile::next_data(std::uint64_t offset) const {
    const auto begin = ::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_DATA);
    if (begin < 0 && errno == ENXIO) return std::nullopt;
    const auto end = begin < 0 ? begin : ::lseek(fd_.get(), begin, SEEK_HOLE);
    if (end < 0) return DiskFileRange{offset, std::numeric_limits<std::uint64_t>::max()};
    return DiskFileRange{static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)};
}

Result<DiskFileSizes> DiskFile::sizes() const {
    struct stat status {};
    if (TIERFS_DISK_CALL(use_, stat, ::fstat(fd_.get(), &status)) != 0) return error(errno, "stat");
    return DiskFileSizes{static_cast<std::uint64_t>(status.st_size),
                         static_cast<std::uint64_t>(status.st_blocks) * 512, to_ns(status.st_mtim)};
}

}  // namespace tierfs
