// Lines of the log before they are written: without control characters, and only so many a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tierfs::log {

/// `line` with newlines and other control characters (C1 included) written as \n, \t, \xNN: names of objects
/// come from strangers and must not forge lines or steer a terminal.
std::string escaped(std::string_view line);

/// Lets so many lines through in each second and counts the others. Not thread-safe: the caller locks.
class LineLimit {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr unsigned kLinesPerSecond = 5;

    /// Whether a line may be written at `now`. Call `take_left_out` first.
    bool admit(Clock::time_point now);

    /// How many lines the window that ended before `now` left out; told once. 0 while the window lasts.
    std::uint64_t take_left_out(Clock::time_point now);

    /// How many lines were left out, whether the window ended or not; told once.
    std::uint64_t take_all_left_out();

  private:
    bool over(Clock::time_point now) const { return now - start_ >= std::chrono::seconds(1); }

    Clock::time_point start_{};
    unsigned written_ = 0;
    std::uint64_t left_out_ = 0;
};

}  // namespace tierfs::log
