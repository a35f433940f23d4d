// The shape that direct readers want of a file: every block allocated and written, few extents, exact size.
//
// Why: GPUDirect Storage takes holes and unwritten extents for sparse files and leaves its fast path (the
// sources of nvidia-fs; NVIDIA, "GPUDirect Storage Best Practices Guide"). FIEMAP is described in
// Documentation/filesystems/fiemap.rst of the kernel, FS_IOC_FSSETXATTR in ioctl_xfs_fsgetxattr(2).
#pragma once

#include <linux/fiemap.h>

#include <cstdint>
#include <span>
#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs::stage {

/// Files from this size on get an extent size hint of kExtentHint.
inline constexpr std::uint64_t kHintFrom = std::uint64_t{64} << 20;
inline constexpr std::uint32_t kExtentHint = std::uint32_t{16} << 20;

enum class FileSystemKind : std::uint8_t { xfs, ext4, other };

/// What a folder lies on.
struct FileSystemFacts {
    FileSystemKind kind = FileSystemKind::other;
    std::string name;    ///< "xfs", "ext4", "tmpfs", or the magic number
    std::string device;  ///< "MAJOR:MINOR"
    [[nodiscard]] bool is_suitable() const { return kind != FileSystemKind::other; }
};

Result<FileSystemFacts> file_system_of(int fd);

struct Space {
    std::uint64_t total = 0, available = 0;  ///< bytes; available to who asks
};
Result<Space> space_of(int fd);

/// Makes a file for `size` bytes that a writer fills with direct I/O: the extent size hint first, as it must
/// be set before the first extent; then preallocated to the next multiple of 4 KiB, so that no write extends
/// the file (XFS runs those one after the other). Mode 0600. EEXIST when the name is taken; ENOSPC removes it
/// again. `direct` says whether it could be opened with O_DIRECT (tmpfs of old kernels cannot).
struct NewFile {
    FileDescriptor fd;
    bool direct = true;
};
Result<NewFile> create_shaped(int folder, const std::string& name, std::uint64_t size, FileSystemKind kind);

/// What FIEMAP says of a file that is complete.
struct ExtentVerdict {
    std::uint32_t extents = 0;
    std::string problem;  ///< why a direct reader would leave its fast path; empty: it would not
    std::string warning;  ///< more extents than such a file should have
};

/// Extents that a file of this size may have without a warning.
std::uint32_t extents_expected(std::uint64_t size);

/// Pure: judges extents in order of their offsets.
ExtentVerdict judge_extents(std::span<const fiemap_extent> extents, std::uint64_t size);

/// FIEMAP (with FIEMAP_FLAG_SYNC) and st_blocks of an open file. Where the file system has no FIEMAP
/// (EOPNOTSUPP) the verdict's warning says so.
Result<ExtentVerdict> check_extents(int fd, std::uint64_t size);

/// Lets go of what the page cache holds of a file that is clean.
void drop_from_page_cache(int fd);

}  // namespace tierfs::stage
