// Ctrl-C and the like: what runs ends in order.
#pragma once

#include <csignal>
#include <thread>

#include "config/base/file_descriptor.hpp"
#include "fs/cli/stop_flag.hpp"

namespace tierfs {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP asks `stop`; a second ends the process at once (what
/// was staged is safe: the next run goes on). To be made before other threads, which inherit the mask. Throws
/// std::system_error.
class Signals {
  public:
    explicit Signals(StopFlag& stop);
    ~Signals();
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

  private:
    void watch();

    StopFlag& stop_;
    sigset_t before_{};
    FileDescriptor signals_, end_;
    std::thread thread_;
};

}  // namespace tierfs
