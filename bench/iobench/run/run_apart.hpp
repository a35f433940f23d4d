// One run of a suite in a process of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "bench/iobench/run/interruption.hpp"
#include "bench/iobench/suites/suites.hpp"
#include "config/base/result.hpp"

namespace tierfs::iobench {

/// What a run gave.
struct RunOutcome {
    Metrics metrics;
    std::optional<std::uint64_t> bytes;  ///< through read and write calls (/proc/PID/io); none: not known
};

/// Called again and again while the run lasts.
struct Watch {
    std::chrono::milliseconds interval{1000};
    std::function<void()> look;  ///< may be empty
};

/// Forks, and does `work` in the child, which leads a process group of its own: a Ctrl-C at the terminal does
/// not reach it, and whatever it starts can be ended with it. What `work` leaves in the memory of its objects
/// is gone afterwards.
///
/// Errors: those of `work`; EDOM for a metric that is not finite; EIO for a child that died; ECANCELED when
/// `stop` has or gets a signal. The child's group is told by SIGTERM then, has kGrace to clean up, and is
/// killed. Nothing that the child started is alive afterwards, unless the kernel does not let it die (a
/// file system that hangs): after another kGrace that is left behind.
Result<RunOutcome> run_apart(const std::function<Result<Metrics>()>& work, Interruption& stop,
                             const Watch& watch);

constexpr std::chrono::seconds kGrace{3};

}  // namespace tierfs::iobench
