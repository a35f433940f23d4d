// The class of a dataset: what its tiers keep, from the settings or from how it is read.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "config/base/mutex.hpp"
#include "config/settings.hpp"
#include "tiering/policy/pattern.hpp"

namespace tierfs {

/// What `tierfs status` says of a dataset.
struct DatasetStatus {
    std::string match = "/**";  ///< the rule's
    std::string configured = "auto";
    std::string codec = "none";  ///< its small objects on NVMe are compressed so, where that saves 12 %
    std::string current = "undecided";  ///< the class in force
    std::string reason;
    PatternEvidence evidence;      ///< of the last window, whether or not it decided
    std::int64_t decided_s = 0;    ///< when `current` came into force, seconds since 1970; 0: not yet
    std::uint64_t renewals = 0;    ///< how often what nobody read any more was given up
    bool frozen = false;           ///< full: nothing is admitted or evicted
    std::uint64_t kept_bytes = 0;  ///< in the tiers (gauge)
    std::uint64_t read_bytes = 0, origin_bytes = 0;          ///< by applications; of these from the origin
    std::uint64_t fill_offered_bytes = 0, filled_bytes = 0;  ///< of files looked at; of these, fetched
};

/// Thread-safe. Times are passed in.
///
/// epoch and undecided evict nothing for what is new: a shuffled epoch hits each resident byte once, whatever
/// is evicted, so that eviction gains nothing and costs writes (CoorDL, VLDB 2021, section 4.1). hot:
/// S3-FIFO. stream and once are kept where there is room, since a first epoch in order looks the same; where
/// they are configured, they are not written to NVMe. pin and none are never recognised.
///
/// The first window decides. Then a class needs as many visits more than the others as two windows have, and
/// as half of the items: where few large files are shuffled, the first quarter of an epoch can look hot.
///
/// What is kept may be of no use any more: another job reads other files, or all objects were replaced. When
/// the dataset is known (few visits of new items) and far fewer bytes come from the tiers than what they hold
/// would give, it is renewed: what nobody reads from then on may go.
class DatasetPolicy {
  public:
    using Clock = std::chrono::system_clock;

    explicit DatasetPolicy(DatasetClass configured);

    /// True: call `decide`.
    bool observe(const PatternRead& read) { return recogniser_.observe(read); }

    /// Bytes since the start.
    struct Traffic {
        std::uint64_t read = 0, from_origin = 0;
        std::uint64_t resident = 0;  ///< in the tiers now
        bool full = false;
    };
    struct Step {
        bool changed = false;  ///< of the class
        bool renew = false;
    };
    Step decide(const Traffic& traffic, Clock::time_point now) TIERFS_EXCLUDES(mutex_);

    /// DatasetClass::automatic: undecided.
    [[nodiscard]] DatasetClass current() const { return current_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool is_configured() const { return configured() != DatasetClass::automatic; }
    [[nodiscard]] DatasetClass configured() const { return configured_.load(std::memory_order_relaxed); }
    /// From now on this class; automatic: by watching.
    void configure(DatasetClass configured, Clock::time_point now) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] DatasetStatus status() const TIERFS_EXCLUDES(mutex_);

  private:
    bool update_class(const PatternEvidence& evidence, Clock::time_point now) TIERFS_REQUIRES(mutex_);
    bool is_unused(const PatternEvidence& evidence, const Traffic& traffic) TIERFS_REQUIRES(mutex_);

    std::atomic<DatasetClass> configured_;
    std::atomic<DatasetClass> current_;
    PatternRecogniser recogniser_;
    mutable Mutex mutex_;
    Pattern candidate_ TIERFS_GUARDED_BY(mutex_) = Pattern::epoch;
    std::uint64_t votes_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< visits for the candidate, less those against it
    std::string reason_ TIERFS_GUARDED_BY(mutex_);
    Clock::time_point decided_ TIERFS_GUARDED_BY(mutex_){};
    std::uint64_t renewals_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool known_ TIERFS_GUARDED_BY(mutex_) = false;  ///< few visits of new items lately
    Traffic since_ TIERFS_GUARDED_BY(mutex_);       ///< when known_ was set or last looked at
    std::uint64_t visits_known_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs
