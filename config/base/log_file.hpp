// The file that a log goes to. Internal to config/base.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tierfs::log {

/// Appends lines to a file that other processes append to as well, and that they, or logrotate(8), may move
/// away: the path is looked at once a second, and opened anew when another file lies there, or none. A file
/// of `max_size` bytes and more (0: any size) is moved to PATH.1, over what lay there; a symbolic link and
/// what is no regular file are not. What another process moves away too gets its lines for that second.
///
/// Each line is one write(2) with O_APPEND, so lines of processes do not mix. Standard error follows where it
/// led to the file. Not thread-safe: the caller locks.
class LogFile {
  public:
    using Clock = std::chrono::steady_clock;

    /// Makes the file, and its directory. Throws std::system_error when it cannot be written.
    LogFile(std::string path, std::uint64_t max_size);
    ~LogFile();
    LogFile(const LogFile&) = delete;
    LogFile& operator=(const LogFile&) = delete;

    /// `line` with its newline. What cannot be written is lost.
    void write(std::string_view line, Clock::time_point now);

  private:
    [[nodiscard]] bool lies_there() const;
    void put_aside();
    bool reopen();

    const std::string path_;
    const std::uint64_t max_size_;
    int file_ = -1;
    std::uint64_t size_ = 0;  ///< of the file when it was last looked at, and what was written here since
    Clock::time_point look_again_{}, put_aside_again_{};
};

}  // namespace tierfs::log
