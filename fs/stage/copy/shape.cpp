#include "fs/stage/copy/shape.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "config/base/aligned_buffer.hpp"
#include "config/base/hex.hpp"
#include "config/base/json_text.hpp"

namespace tierfs::stage {

namespace {

constexpr std::uint32_t kBad = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED |
                               FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_INLINE |
                               FIEMAP_EXTENT_DATA_TAIL | FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_SHARED;

std::string flag_names(std::uint32_t flags) {
    struct Name {
        std::uint32_t flag;
        const char* name;
    };
    constexpr Name kNames[] = {
        {FIEMAP_EXTENT_UNKNOWN, "of unknown place"}, {FIEMAP_EXTENT_DELALLOC, "delayed"},
        {FIEMAP_EXTENT_ENCODED, "encoded"},          {FIEMAP_EXTENT_NOT_ALIGNED, "not aligned"},
        {FIEMAP_EXTENT_DATA_INLINE, "inline"},       {FIEMAP_EXTENT_DATA_TAIL, "packed in a tail"},
        {FIEMAP_EXTENT_UNWRITTEN, "unwritten"},      {FIEMAP_EXTENT_SHARED, "shared"}};
    std::string text;
    for (const auto& [flag, name] : kNames)
        if ((flags & flag) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
    return text;
}

/// Only XFS knows the hint; that another file system refuses it is no error.
void set_extent_hint(int fd) {
    fsxattr attributes{};
    if (::ioctl(fd, FS_IOC_FSGETXATTR, &attributes) != 0) return;
    attributes.fsx_xflags |= FS_XFLAG_EXTSIZE;
    attributes.fsx_extsize = kExtentHint;
    // Refused where it is over half an allocation group: the file then has the extents that it gets.
    static_cast<void>(::ioctl(fd, FS_IOC_FSSETXATTR, &attributes));
}

}  // namespace

Result<FileSystemFacts> file_system_of(int fd) {
    struct statfs facts {};
    struct stat status {};
    if (::fstatfs(fd, &facts) != 0 || ::fstat(fd, &status) != 0) return fail(system_error(errno, "statfs"));
    FileSystemFacts result;
    switch (static_cast<std::uint32_t>(facts.f_type)) {
        case XFS_SUPER_MAGIC:
            result.kind = FileSystemKind::xfs;
            result.name = "xfs";
            break;
        case EXT4_SUPER_MAGIC:
            result.kind = FileSystemKind::ext4;
            result.name = "ext4";
            break;
        case TMPFS_MAGIC:
            result.name = "tmpfs";
            break;
        case OVERLAYFS_SUPER_MAGIC:
            result.name = "overlayfs";
            break;
        case BTRFS_SUPER_MAGIC:
            result.name = "btrfs";
            break;
        case 0x65735546:  // FUSE_SUPER_MAGIC of newer headers
            result.name = "fuse";
            break;
        case NFS_SUPER_MAGIC:
            result.name = "nfs";
            break;
        default:
            result.name = "magic 0x" + to_hex(static_cast<std::uint32_t>(facts.f_type), 8);
    }
    result.device = std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
    return result;
}

Result<Space> space_of(int fd) {
    struct statvfs facts {};
    if (::fstatvfs(fd, &facts) != 0) return fail(system_error(errno, "statvfs"));
    return Space{facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize};
}

Result<NewFile> create_shaped(int folder, const std::string& name, std::uint64_t size, FileSystemKind kind) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    NewFile file{FileDescriptor(::openat(folder, name.c_str(), kFlags | O_DIRECT, 0600)), true};
    if (!file.fd && errno == EINVAL) {
        // The name may have been made before the flag was refused.
        static_cast<void>(::unlinkat(folder, name.c_str(), 0));
        file = NewFile{FileDescriptor(::openat(folder, name.c_str(), kFlags, 0600)), false};
    }
    if (!file.fd) return fail(system_error(errno, name));
    if (size == 0) return file;
    if (kind == FileSystemKind::xfs && size >= kHintFrom) set_extent_hint(file.fd.get());
    const auto rounded = static_cast<off_t>(align_up(size));
    while (::fallocate(file.fd.get(), 0, 0, rounded) != 0) {
        if (errno == EINTR) continue;
        const int code = errno;
        if (code == EOPNOTSUPP && ::ftruncate(file.fd.get(), rounded) == 0) break;
        static_cast<void>(::unlinkat(folder, name.c_str(), 0));
        return fail(system_error(code, "allocating " + std::to_string(rounded) + " bytes"));
    }
    return file;
}

std::uint32_t extents_expected(std::uint64_t size) {
    // An extent of XFS ends with its allocation group at the latest; free space may be in pieces.
    constexpr std::uint64_t kPer = std::uint64_t{64} << 20;
    constexpr std::uint64_t kMore = 8;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(size / kPer + kMore, UINT32_MAX));
}

ExtentVerdict judge_extents(std::span<const fiemap_extent> extents, std::uint64_t size) {
    ExtentVerdict verdict;
    verdict.extents = static_cast<std::uint32_t>(extents.size());
    std::uint64_t covered = 0;
    for (const auto& extent : extents) {
        if (extent.fe_logical >= align_up(size)) break;
        if (extent.fe_logical > covered) break;
        if ((extent.fe_flags & kBad) != 0) {
            verdict.problem = "the extent at " + std::to_string(extent.fe_logical) + " is " +
                              flag_names(extent.fe_flags & kBad);
            return verdict;
        }
        covered = extent.fe_logical + extent.fe_length;
    }
    if (covered < size) verdict.problem = "there is a hole at " + std::to_string(covered);
    if (verdict.extents > extents_expected(size)) {
        verdict.warning = "it has " + std::to_string(verdict.extents) + " extents, more than the " +
                          std::to_string(extents_expected(size)) +
                          " that its size should need: free space is in small pieces";
    }
    return verdict;
}

Result<ExtentVerdict> check_extents(int fd, std::uint64_t size) {
    constexpr std::uint32_t kAtATime = 256;
    struct stat status {};
    if (::fstat(fd, &status) != 0) return fail(system_error(errno, "fstat"));
    const std::size_t bytes = sizeof(fiemap) + kAtATime * sizeof(fiemap_extent);
    // Words, so that the structure is aligned.
    std::vector<std::uint64_t> memory(bytes / sizeof(std::uint64_t) + 1);
    std::vector<fiemap_extent> extents;
    for (std::uint64_t start = 0;;) {
        auto* const map = reinterpret_cast<fiemap*>(memory.data());
        std::memset(memory.data(), 0, sizeof(fiemap));
        map->fm_start = start;
        map->fm_length = FIEMAP_MAX_OFFSET - start;
        map->fm_flags = FIEMAP_FLAG_SYNC;
        map->fm_extent_count = kAtATime;
        if (::ioctl(fd, FS_IOC_FIEMAP, map) != 0) {
            if (errno == EOPNOTSUPP || errno == ENOTTY)
                return ExtentVerdict{0, {}, "this file system does not tell extents"};
            return fail(system_error(errno, "FIEMAP"));
        }
        const auto* const got = reinterpret_cast<const fiemap_extent*>(map + 1);
        extents.insert(extents.end(), got, got + map->fm_mapped_extents);
        if (map->fm_mapped_extents == 0 || (extents.back().fe_flags & FIEMAP_EXTENT_LAST) != 0) break;
        start = extents.back().fe_logical + extents.back().fe_length;
    }
    ExtentVerdict verdict = judge_extents(extents, size);
    constexpr std::uint64_t kSector = 512;  // of st_blocks, stat(2)
    if (verdict.problem.empty() && static_cast<std::uint64_t>(status.st_blocks) * kSector < size)
        verdict.problem = "fewer bytes are allocated than the file has";
    if (verdict.problem.empty() && static_cast<std::uint64_t>(status.st_size) != size)
        verdict.problem = "its size is " + std::to_string(status.st_size) + ", not " + std::to_string(size);
    return verdict;
}

void drop_from_page_cache(int fd) {
    static_cast<void>(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

}  // namespace tierfs::stage
