// Progress of a measurement: one line on a terminal, nothing elsewhere; on standard error.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tierfs::iobench {

/// What is being done.
struct RunStep {
    std::string test, target;
    std::size_t test_number = 1, tests = 1;  ///< from 1
    std::size_t run = 1, runs = 1;           ///< from 1
    bool warm_up = false;
};

/// "case 2 of 6, shuffled: tierfs, run 3 of 5, 40 s left". `done` and `all` count runs of all cases and
/// targets, `spent` is the time of those that are done; nothing is said of what is left before the first.
std::string progress_line(const RunStep& step, std::size_t done, std::size_t all,
                          std::chrono::duration<double> spent);

/// Not thread-safe.
class RunProgress {
  public:
    /// Of `all` runs.
    RunProgress(bool shown, std::size_t all) : shown_(shown), all_(all) {}

    /// Clears the line.
    ~RunProgress();
    RunProgress(const RunProgress&) = delete;
    RunProgress& operator=(const RunProgress&) = delete;

    void begin(const RunStep& step);
    void end();

  private:
    using Clock = std::chrono::steady_clock;
    bool shown_;
    std::size_t all_, done_ = 0;
    Clock::time_point start_ = Clock::now();
};

}  // namespace tierfs::iobench
