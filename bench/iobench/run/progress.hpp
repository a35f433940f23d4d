// Progress of long work: a bar on a terminal, a line every 10 s elsewhere; on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tierfs::iobench {

/// Not thread-safe: one thread reports. Prints nothing for work that is done within the first interval.
class Progress {
  public:
    /// `total` in bytes; `what` begins each line.
    Progress(std::string what, std::uint64_t total);

    /// Clears the bar.
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void update(std::uint64_t bytes);

  private:
    using Clock = std::chrono::steady_clock;
    std::string what_;
    std::uint64_t total_;
    bool terminal_;
    bool shown_ = false;
    Clock::time_point start_, last_;
};

}  // namespace tierfs::iobench
