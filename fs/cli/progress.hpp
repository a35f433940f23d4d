// Tells on standard error how far a command is. Internal to fs/commands.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include "fs/cli/say.hpp"

namespace tierfs {

/// On a terminal a line that is written over, several times a second; else a line every 10 s. Not
/// thread-safe.
class ProgressLine {
  public:
    /// `text` is asked for the line when it is time for one, with the seconds since the start.
    void tell(const std::function<std::string(double seconds)>& text) {
        const auto now = Clock::now();
        if (now - told_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10))) return;
        told_ = now;
        const double seconds = std::chrono::duration<double>(now - begun_).count();
        if (terminal_) return say_over(stderr, text(seconds));
        say_line(stderr, text(seconds));
    }
    void end() const {
        if (terminal_) say_over(stderr, "");
    }

  private:
    using Clock = std::chrono::steady_clock;
    const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
    const Clock::time_point begun_ = Clock::now();
    Clock::time_point told_ = begun_;
};

}  // namespace tierfs
