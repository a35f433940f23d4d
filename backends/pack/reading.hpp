// Reads that are waited for. Internal to backends/pack and fs/pack.
#pragma once

#include <condition_variable>
#include <optional>
#include <span>
#include <string>

#include "backends/origin/origin.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::pack {

/// Reads under way whose end is waited for. The destinations must stay until wait() has returned.
/// Thread-safe.
class Reads {
  public:
    explicit Reads(Origin& origin, Priority priority = Priority::fill)
        : origin_(origin), priority_(priority) {}
    ~Reads() { static_cast<void>(wait()); }
    Reads(const Reads&) = delete;
    Reads& operator=(const Reads&) = delete;

    /// `version` empty: whatever is there.
    void start(std::string path, std::string version, std::uint64_t offset, std::span<std::byte> to);
    /// Until none is under way; the first error since the last call.
    Result<void> wait() TIERFS_EXCLUDES(mutex_);

  private:
    void ended(Result<void> result) TIERFS_EXCLUDES(mutex_);

    Origin& origin_;
    const Priority priority_;
    Mutex mutex_;
    std::condition_variable changed_;
    std::size_t under_way_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::optional<Error> error_ TIERFS_GUARDED_BY(mutex_);
};

/// One read of whatever is at `path`.
Result<void> read_now(Origin& origin, const std::string& path, std::uint64_t offset, std::span<std::byte> to);

}  // namespace tierfs::pack
