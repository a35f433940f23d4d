// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace tierfs {

/// Owns one file descriptor and closes it. Movable, not copyable; not thread-safe itself (what it refers to
/// may be). -1 stands for "none".
class FileDescriptor {
  public:
    FileDescriptor() = default;
    explicit FileDescriptor(int fd) : fd_(fd) {}
    FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept {
        if (this != &other) reset(other.release());
        return *this;
    }
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;
    ~FileDescriptor() { reset(); }

    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] bool valid() const { return fd_ >= 0; }
    explicit operator bool() const { return valid(); }

    /// Gives the descriptor away: closing it is the caller's from now on.
    int release() { return std::exchange(fd_, -1); }

    /// Closes what it holds and takes `fd`. EINTR of close(2) is not retried: on Linux the descriptor is
    /// gone all the same.
    void reset(int fd = -1) {
        const int old = std::exchange(fd_, fd);
        if (old >= 0) ::close(old);
    }

  private:
    int fd_ = -1;
};

}  // namespace tierfs
