// One regular file of a cache device, read and written with direct I/O where the file system can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "config/base/aligned_buffer.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// What a file is for: names its fault points (config/base/fault_point.hpp).
enum class DiskUse : std::uint8_t { extent, data, sidecar };

struct DiskFileMode {
    bool write = false;
    bool create = false;    ///< made when absent (mode 0600); implies write
    bool truncate = false;  ///< emptied first
    bool direct = true;     ///< O_DIRECT; quietly buffered where the file system refuses it with EINVAL
    DiskUse use = DiskUse::extent;
};

struct DiskFileSizes {
    std::uint64_t size = 0;       ///< bytes, as stat's st_size
    std::uint64_t allocated = 0;  ///< bytes on the device: st_blocks * 512, preallocated ones too
    std::int64_t modified_ns = 0;
};

/// Bytes [begin, end) of a file.
struct DiskFileRange {
    std::uint64_t begin = 0, end = 0;
};

/// Owns an open regular file; movable. All calls but moves are thread-safe (positional I/O). With direct I/O
/// memory, offset and length must be multiples of kDiskAlignment; a call that is not, or that the device
/// refuses with EINVAL, turns direct I/O off for this file and goes on buffered. Symbolic links are refused.
/// Errors: errno of the system call, with the path.
class DiskFile {
  public:
    static Result<DiskFile> open(const std::filesystem::path& path, const DiskFileMode& mode);

    /// Reads until `out` is full or the file ends; the number of bytes read.
    Result<std::size_t> read(std::span<std::byte> out, std::uint64_t offset) const;
    /// Writes all of `data`.
    Result<void> write(std::span<const std::byte> data, std::uint64_t offset) const;
    /// Allocates [0, bytes) and makes the file that long. EOPNOTSUPP where the file system cannot.
    Result<void> preallocate(std::uint64_t bytes) const;
    Result<void> truncate(std::uint64_t bytes) const;
    /// Gives the range's blocks back; it reads as zeros.
    Result<void> punch_hole(std::uint64_t offset, std::uint64_t length) const;
    /// fdatasync(2).
    Result<void> sync_data() const;
    Result<DiskFileSizes> sizes() const;

    [[nodiscard]] bool direct() const;
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] const std::string& path() const { return path_; }

    /// The next run of bytes from `offset` on that is no hole; nothing: there are holes alone. Where the file system cannot
    /// tell, all that follows.
    [[nodiscard]] std::optional<DiskFileRange> next_data(std::uint64_t offset) const;

  private:
    DiskFile(FileDescriptor fd, std::string path, DiskUse use)
        : fd_(std::move(fd)), path_(std::move(path)), use_(use) {}
    [[nodiscard]] tl::unexpected<Error> error(int code, const char* what) const;
    /// After EINVAL: whether direct I/O was on and is off now, so that trying again makes sense.
    [[nodiscard]] bool give_up_direct() const;

    FileDescriptor fd_;
    std::string path_;
    DiskUse use_;
};

}  // namespace tierfs
