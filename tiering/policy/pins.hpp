// Pins that people made with `tierfs pin`. The store (tiering/store/store_pins.cpp) keeps it in the tiers.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/base/mutex.hpp"
#include "config/base/result.hpp"
#include "tiering/policy/pins_text.hpp"

namespace tierfs {

/// Bytes that an object of that size takes in an extent or a file of its own, or a bit less: entries of 4 KiB
/// and more begin on a sector, smaller ones do not cross one.
constexpr std::uint64_t pinned_space(std::uint64_t size) {
    constexpr std::uint64_t kSector = 4096;
    const std::uint64_t padded = size <= kSector / 2 ? 2 * size : (size + kSector - 1) / kSector * kSector;
    return padded + size / 512 + 64;
}

/// Paths, of files or of directories with all that lies below now and later. They name no version: what
/// changes at the origin stays pinned.
///
/// add and remove hold at once and are written down by `commit`: a record is on disk before anybody is told
/// that something is pinned, and off it before the tiers let go, so that after a kill no more than what
/// somebody was told is pinned. Which bytes the tiers hold is not recorded, and found by asking them.
///
/// The file "pins" stands in each of the folders (one for each device of the cache: any of them may be
/// missing at the next start), is replaced as a whole by rename, and the one with the highest sequence
/// counts. Without folders pins end with the mount. Thread-safe; commit blocks for the disk.
class Pins {
  public:
    Pins() = default;
    /// One that is damaged is set aside as "pins.damaged". Of another version's the log tells, it is left as
    /// it is, and `add` and `remove` fail with EPROTO.
    explicit Pins(std::vector<std::filesystem::path> folders);

    /// The pin that a path falls under; nothing: none.
    [[nodiscard]] std::optional<std::string> covering(std::string_view path) const TIERFS_EXCLUDES(mutex_);
    /// Changes whenever an answer of `covering` may; 0: nothing was ever pinned.
    [[nodiscard]] std::uint32_t generation() const { return generation_.load(std::memory_order_acquire); }

    enum class Added : std::uint8_t { yes, before };
    /// `before`: it, or a directory above it, is pinned already. Pins below it become part of it. `limit`:
    /// bytes of all pins. Errors: ENOSPC, with that limit or kMostPins; ENAMETOOLONG; EPROTO.
    Result<Added> add(const std::string& path, const PinSize& size, std::uint64_t limit)
        TIERFS_EXCLUDES(mutex_);
    /// Takes it and all pins below it out, and says what they were. ENOENT: there are none; EINVAL: it lies
    /// below one; EPROTO.
    Result<PinSize> remove(const std::string& path) TIERFS_EXCLUDES(mutex_);
    /// Writes down what was changed. When no folder takes it, the changes are taken back: the first error.
    Result<void> commit() TIERFS_EXCLUDES(mutex_, writing_);

    struct Totals {
        std::uint64_t paths = 0, files = 0, bytes = 0;
    };
    [[nodiscard]] Totals totals() const TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] std::vector<std::string> paths() const TIERFS_EXCLUDES(mutex_);

  private:
    void load(const std::filesystem::path& folder, PinFile& newest);
    [[nodiscard]] PinTable::const_iterator find_covering(std::string_view path) const TIERFS_REQUIRES(mutex_);
    /// Its entries below `path`, without itself: [first, second).
    [[nodiscard]] std::pair<PinTable::iterator, PinTable::iterator> below(const std::string& path)
        TIERFS_REQUIRES(mutex_);
    PinTable::iterator take_out(PinTable::iterator pin) TIERFS_REQUIRES(mutex_);
    void changed() TIERFS_REQUIRES(mutex_);
    void take_back() TIERFS_REQUIRES(mutex_);
    [[nodiscard]] Result<void> may_change() const TIERFS_REQUIRES(mutex_);

    std::vector<std::filesystem::path> folders_;
    std::atomic<std::uint32_t> generation_{0};
    Mutex writing_;  ///< before mutex_
    mutable Mutex mutex_;
    PinTable pins_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t bytes_ TIERFS_GUARDED_BY(mutex_) = 0, files_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t sequence_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool foreign_ TIERFS_GUARDED_BY(mutex_) = false;  ///< a file of another version stands there
    /// What changes since the last commit began with: nothing where there was no such pin.
    std::vector<std::pair<std::string, std::optional<PinSize>>> before_ TIERFS_GUARDED_BY(mutex_);
    std::optional<Error> lost_ TIERFS_GUARDED_BY(mutex_);  ///< for whoever commits what was taken back
};

}  // namespace tierfs
