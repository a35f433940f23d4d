// Ctrl-C and the like while `tierfs-stage out` works.
#pragma once

#include <csignal>
#include <thread>

#include "backends/disk/file_descriptor.hpp"
#include "tiering/stage/stop_flag.hpp"

namespace tierfs::stage {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP asks `stop` to end in order; a second one ends the
/// process at once. Signals that were ignored when it was made stay ignored. Made before other threads are,
/// which inherit the blocked signals. Throws std::system_error.
class OutSignals {
  public:
    explicit OutSignals(StopFlag& stop);
    ~OutSignals();
    OutSignals(const OutSignals&) = delete;
    OutSignals& operator=(const OutSignals&) = delete;

  private:
    void run();

    StopFlag& stop_;
    sigset_t before_{};
    FileDescriptor signals_, quit_;
    std::thread thread_;
};

}  // namespace tierfs::stage
