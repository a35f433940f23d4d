// The profile of a mount: whether opens are answered with a message each, or without one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "config/base/mutex.hpp"
#include "config/settings.hpp"
#include "fs/metadata/file_sizes.hpp"
#include "fs/session/connection_record.hpp"

namespace tierfs {

/// What `tierfs status` shows in its member "profile".
struct ProfileStatus {
    std::string kind, reason;
};

/// The profile of a mount. `small`: ENOSYS to one OPEN, and the kernel opens files without asking from then
/// on (the whole connection, for good: FUSE_NO_OPEN_SUPPORT). `large`: each OPEN is answered, which
/// passthrough needs. `auto` begins as large and becomes small at most once, when enough is known to tell
/// that most files are small.
///
/// Thread-safe; no call blocks.
class MountProfile {
  public:
    /// Names that it takes to judge a dataset by.
    static constexpr std::uint64_t kFilesToJudge = 1000;

    /// `record`: where the switch is kept for the next daemon; it may have come already. May be null.
    explicit MountProfile(const Settings& settings, ConnectionRecord* record = nullptr);

    /// Decides how an OPEN is to be answered: true means ENOSYS. With `auto` this may be the switch, so the
    /// caller must hold off other opens that would pass a file through; `passed_through`: files open so now
    /// (a later open of such a file would fail with EIO, so the switch waits for their end).
    bool answers_without_opens(const FileSizes& known, std::uint64_t passed_through);

    /// Whether OPENDIR gets ENOSYS: directories stay cached without a limit, so only where nothing changes.
    [[nodiscard]] bool lists_without_opens() const { return keeps_listings_ && is_small(); }

    [[nodiscard]] bool is_small() const { return small_.load(std::memory_order_acquire); }

    [[nodiscard]] ProfileStatus status(const FileSizes& known, std::uint64_t passed_through) const;

  private:
    ConnectionRecord* const record_;
    const bool automatic_, keeps_listings_;
    std::atomic<bool> small_;
    mutable Mutex mutex_;
    std::string reason_ TIERFS_GUARDED_BY(mutex_);  ///< empty: not decided yet
};

}  // namespace tierfs
