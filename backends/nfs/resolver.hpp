// From paths to handles.
#pragma once

#include <memory>

#include "backends/nfs/handle_cache.hpp"
#include "backends/nfs/root.hpp"

namespace tierfs::nfs {

struct Found {
    Handle handle;
    std::optional<FileAttributes3> attributes;  ///< the server may not tell them
};

/// How long, and how urgently.
struct Effort {
    Clock::time_point deadline = Clock::time_point::max();
    Priority priority = Priority::demand;
};

/// Walks a path by LOOKUP from the nearest directory whose handle is known and not older than `trust`; a
/// handle that has become stale is looked up again. Symlinks are not followed: one on the way is ENOTDIR.
/// Thread-safe; nothing blocks. `done` is called once, on any thread, possibly before the call returns.
class Resolver {
  public:
    using Done = std::function<void(Result<Found>)>;

    Resolver(Client& client, Root& root, HandleCache& handles, std::chrono::milliseconds trust)
        : client_(client), root_(root), handles_(handles), trust_(trust) {}

    /// The handle of a directory that is listed or that a name is looked up in.
    void directory(const std::string& path, const Effort& effort, Done done);

    /// Asks the server for the last name of a path that is not empty, whatever is known of it.
    void look_up(const std::string& path, const Effort& effort, Done done);

    /// A handle turned out to be stale: neither it nor those above it are trusted any more.
    void distrust(const std::string& path, const Handle& stale);

  private:
    struct Walk;
    void begin(const std::shared_ptr<Walk>& walk);
    void step(const std::shared_ptr<Walk>& walk);
    void took(const std::shared_ptr<Walk>& walk, std::size_t end, Result<Reply> reply);

    Client& client_;
    Root& root_;
    HandleCache& handles_;
    const std::chrono::milliseconds trust_;
};

}  // namespace tierfs::nfs
