// The terminal of a command that draws pictures on it.
#pragma once

#include <termios.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "config/base/file_descriptor.hpp"

namespace tierfs {

/// Takes the terminal on standard input and output while it lives: the alternate screen, no cursor, keys at
/// once and unseen. SIGINT, SIGTERM, SIGHUP and SIGWINCH of the process come here. Everything is put back by
/// the destructor. One at a time, before there are threads; of one thread. Plain control sequences (ECMA-48,
/// and xterm's 1049).
class Terminal {
  public:
    /// Whether standard input and output are one.
    static bool is_there();

    Terminal();
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    struct Size {
        std::size_t width = 80, height = 24;
    };
    /// 80x24 where it does not say.
    [[nodiscard]] static Size size();

    void draw(const std::vector<std::string>& lines);

    enum class Event { time_passed, resized, quit };
    /// Waits that long; ends earlier for what happens: q, Ctrl-C, a signal, or a terminal that is gone is
    /// `quit`.
    Event wait_until(std::chrono::steady_clock::time_point when);

  private:
    termios before_{};
    FileDescriptor signals_;
};

}  // namespace tierfs
