// Files as iobench needs them: whole, checked, and written so that a half-written one is never seen under its
// name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs::iobench {

/// Owns a file descriptor; -1: none.
class Fd {
  public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    ~Fd();
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    [[nodiscard]] int get() const { return fd_; }

    /// Closes now, to hear of an error that a destructor would swallow: 0 or an errno.
    int close();

  private:
    int fd_;
};

Result<Fd> open_for_reading(const std::string& path);

/// Up to out.size() bytes at `offset`: less only at the end of the file.
Result<std::size_t> read_at(const Fd& file, std::span<std::byte> out, std::uint64_t offset,
                            const std::string& path);

/// Takes all of the bytes in order, or an Error.
using Sink = std::function<Result<void>(std::span<const std::byte>)>;

/// Writes what `produce` hands to its sink into a temporary file beside `path` and renames it; `durable`:
/// fsync before that. On failure the temporary file is removed and `path` is as it was.
Result<void> write_atomically(const std::string& path, bool durable,
                              const std::function<Result<void>(const Sink&)>& produce);

/// One regular file below a directory.
struct FoundFile {
    std::string path;  ///< relative to the directory that was walked
    std::uint64_t size = 0;
};

/// All regular files below `directory`, sorted by path; symbolic links are not followed. Errors name the
/// directory.
Result<std::vector<FoundFile>> walk(const std::string& directory);

}  // namespace tierfs::iobench
