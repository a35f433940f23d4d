// Engine of a mount: whatever differs between read-only and writable mounts, as the daemon sees it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "fs/observe/status.hpp"
#include "fs/observe/trace/trace.hpp"
#include "fs/session/session.hpp"

namespace tierfs {

/// Answers the requests of one mount. It is made before the session, which it must outlive, and stands on the
/// store, the names and the origin, which must outlive it. The daemon's thread calls it, but for add_status() and
/// trace(), which are for any thread.
class Engine {
  public:
    Engine() = default;
    virtual ~Engine() = default;
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Without what holds of every mount (waits_for_ever) and stack_depth.
    [[nodiscard]] virtual SessionHandlers handlers() = 0;
    [[nodiscard]] virtual Session::Threads threads() const = 0;
    /// Its handlers wait for the origin; else none of them does.
    [[nodiscard]] virtual bool blocks() const = 0;

    /// The reason why no file may be passed through to the kernel; empty: nothing is against it so far.
    [[nodiscard]] virtual std::string against_passthrough() const = 0;
    /// Folders whose files are passed through.
    [[nodiscard]] virtual std::vector<std::string> folders_passed_through() const = 0;
    /// Once: before the first request of a connection that is taken over, after FUSE_INIT of another.
    virtual void allow_passthrough(Session& session, std::string against) = 0;

    [[nodiscard]] virtual Trace& trace() = 0;
    virtual void add_status(StatusInputs& in) = 0;
    /// About once a second.
    virtual void tick() = 0;
    /// Answers those who wait for a lock. False: some wait still.
    virtual bool release_waiters(std::chrono::milliseconds patience) = 0;
};

}  // namespace tierfs
