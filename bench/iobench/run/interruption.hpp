// Ctrl-C and the like, without losing what was measured so far.
#pragma once

#include <csignal>

#include "bench/iobench/data/files.hpp"

namespace tierfs::iobench {

/// While it lives, SIGINT, SIGTERM and SIGHUP do not end the process but wait here to be asked for; those
/// that were ignored when it was made (nohup) stay ignored. For processes with one thread: the signals are
/// blocked for the calling thread alone. Throws std::system_error.
class Interruption {
  public:
    Interruption();

    /// A signal that nobody asked for acts now.
    ~Interruption();
    Interruption(const Interruption&) = delete;
    Interruption& operator=(const Interruption&) = delete;

    /// Readable when a signal waits; for poll.
    [[nodiscard]] int descriptor() const { return signals_.get(); }

    /// The first signal that came; 0: none yet.
    int signal();

    /// In a child, after fork: signals act again as before, but do not end the process. They end what it
    /// waits for in the kernel (EINTR), and the processes of Workers, whose error then unwinds the suite:
    /// what it made is removed.
    void let_through_in_child() const;

  private:
    sigset_t before_{};
    Fd signals_;
    int first_ = 0;
};

}  // namespace tierfs::iobench
