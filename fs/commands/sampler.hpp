// Asks a mount what it does, again and again.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "config/base/result.hpp"
#include "fs/observe/snapshot.hpp"

namespace tierfs {

/// A snapshot and when it was taken.
struct TimedSnapshot {
    Snapshot snapshot;
    std::chrono::steady_clock::time_point at;
};

/// Of the mount that lies on that path now: it is found through mountinfo each time, so that a mount that was
/// made anew, or a daemon that took over, is asked as well. ENOENT: nothing of tierfs is mounted there; else
/// the errors of ask_control. Waits for `patience` at most.
Result<TimedSnapshot> take_snapshot(const std::string& mountpoint, std::chrono::milliseconds patience);

}  // namespace tierfs
