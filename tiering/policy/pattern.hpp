// Recognises how a dataset is read. Decides nothing about the tiers (that is dataset_policy.hpp).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "config/base/mutex.hpp"
#include "tiering/values/unit.hpp"

namespace tierfs {

/// epoch: everything is read about equally often, shuffled or not. hot: some of it is read far more often
/// than the rest. stream: large objects from start to end, once. once: small objects in the order of their
/// names, once.
enum class Pattern : std::uint8_t { epoch, hot, stream, once };

/// Counts of one window of visits, of a sample of the dataset where that is large. A visit is all reads of an
/// item (a small object, or 4 MiB of a large one) until one of them reads again what the visit has read.
struct PatternEvidence {
    std::uint64_t visits = 0;
    std::uint64_t fresh = 0;       ///< of items not visited before
    std::uint64_t repeats = 0;     ///< of items visited before
    std::uint64_t short_gaps = 0;  ///< of the repeats, those with fewer visits in between than a quarter of
                                   ///< the items
    std::uint64_t compared = 0, ordered = 0;  ///< in the order of names, compared with a visit a bit earlier
    std::uint64_t sequential = 0;             ///< in runs through large objects
    std::uint64_t items = 0, bytes = 0;       ///< known of the dataset: an estimate for all of it
    std::uint64_t sample = 0;                 ///< items that are followed
};

/// One read, cut to one item.
struct PatternRead {
    UnitKey item;
    std::string_view path;
    BlockMask blocks = 0;              ///< of the item, touched
    std::uint64_t begin = 0, end = 0;  ///< in the object, bytes
    std::uint64_t item_bytes = 0;
    bool sequential = false;  ///< readahead takes it for a part of a run
};

/// Looks at repeats alone and never needs to know where an epoch ends. In shuffled epochs an item comes back
/// after as many visits as there are items, give or take one epoch; where k readers shuffle the same dataset
/// with seeds of their own, gaps are spread like those of uniform chance, of which 22 % are shorter than a
/// quarter of the items. Where some items are hot, most repeats come after short gaps. Only what reaches the
/// daemon is seen: the kernel's page cache hides repeats, never makes any.
///
/// Memory is bounded: above kTracked items it follows a sample of them, chosen by hash, as SHARDS does
/// (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015). Deterministic. Thread-safe; a
/// read that is not in the sample takes no lock.
class PatternRecogniser {
  public:
    static constexpr std::size_t kTracked = 4096;
    static constexpr std::uint64_t kWindow = 256;       ///< visits that a judgement stands on
    static constexpr std::uint64_t kFirstWindow = 128;  ///< the first one comes sooner

    /// True: a window is complete, take it.
    bool observe(const PatternRead& read) TIERFS_EXCLUDES(mutex_);

    /// The last complete window.
    [[nodiscard]] PatternEvidence window() const TIERFS_EXCLUDES(mutex_);

    /// What a window looks like.
    [[nodiscard]] static Pattern judge(const PatternEvidence& evidence);

  private:
    struct Item {
        BlockMask read = 0;       ///< of this visit
        std::uint64_t end = 0;    ///< of its last read
        std::uint64_t visit = 0;  ///< number of its last visit
        std::uint64_t bytes = 0;
    };
    struct Place {
        std::string path;
        std::uint64_t unit = 0;
    };
    static constexpr std::size_t kBehind = 16;  ///< more than readers that go through one order together

    [[nodiscard]] static bool in_sample(const UnitKey& item, unsigned bits);
    void visited(const PatternRead& read) TIERFS_REQUIRES(mutex_);
    void halve_sample() TIERFS_REQUIRES(mutex_);
    void forget_old() TIERFS_REQUIRES(mutex_);

    /// One item in 2^bits is followed. Every read looks at it, so it does not share what the mutex writes.
    alignas(64) std::atomic<unsigned> bits_{0};
    alignas(64) mutable Mutex mutex_;
    std::unordered_map<UnitKey, Item> items_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t visits_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::array<Place, kBehind> places_ TIERFS_GUARDED_BY(mutex_);
    PatternEvidence current_ TIERFS_GUARDED_BY(mutex_);
    PatternEvidence last_ TIERFS_GUARDED_BY(mutex_);
    bool first_ TIERFS_GUARDED_BY(mutex_) = true;
};

}  // namespace tierfs
