// The RAM tier: object data that stays in the arena after its fetch.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "config/base/mutex.hpp"
#include "tiering/policy/s3fifo.hpp"
#include "tiering/policy/tier_shares.hpp"
#include "tiering/ram/arena.hpp"
#include "tiering/values/unit.hpp"

namespace tierfs {

struct RamTierOptions {
    std::uint64_t limit = 0;        ///< bytes kept for another use; 0: nothing is kept once it has been used
    std::uint64_t ahead_limit = 0;  ///< bytes fetched ahead of the reader and not used yet
    unsigned shards = 16;           ///< a power of two
};

/// What becomes of a unit when it has been used. passes: it goes; cached: S3-FIFO; kept: it stays.
enum class RamStay : std::uint8_t { passes, cached, kept };

struct RamTierStats {
    std::uint64_t used_bytes = 0, ahead_bytes = 0, kept_bytes = 0, evicted_bytes = 0, written_bytes = 0;
};

/// Keeps blocks by unit (unit.hpp): what was fetched but not used yet in a queue of its own, `ahead` (first
/// in, first out, never pushed out by reuse), the rest under S3-FIFO (policy/s3fifo.hpp). What is kept (an
/// epoch's only copies) goes for nothing but memory that a fetch needs.
///
/// Thread-safe, one short lock per call; holds no data itself but shares of ArenaBuffers. `insert` does not
/// evict (it is called under other locks): call `trim` afterwards. Limits count the arena's bytes and
/// kEntryOverhead for each piece, so that tiny objects cannot make the tables outgrow the data.
class RamTier {
  public:
    static constexpr std::uint64_t kEntryOverhead = 640;

    explicit RamTier(const RamTierOptions& options);

    /// Calls visitor(buffer, blocks) for each buffer with some of the blocks `want`; `blocks` are numbered
    /// in the unit. Runs under the shard's lock: copy what is needed. Returns the
    /// blocks found.
    template <typename Visitor>
    BlockMask visit(const UnitKey& key, BlockMask want, Visitor&& visitor) {
        Shard& shard = shard_of(key);
        MutexLock lock(shard.mutex);
        const auto found = shard.entries.find(key);
        if (found == shard.entries.end()) return 0;
        BlockMask have = 0;
        for (const Segment& segment : found->second.segments) {
            const BlockMask blocks = segment.blocks & want;
            if (blocks == 0) continue;
            have |= blocks;
            visitor(segment.buffer, blocks);
        }
        if (have != 0) touched(shard, found, want);
        return have;
    }

    /// A buffer of this unit is over (ArenaBuffer::give): what passes by goes when all that is here of it is.
    void over(const UnitKey& key);

    /// Which blocks of the unit are here.
    [[nodiscard]] BlockMask present(const UnitKey& key);

    /// Adds `blocks` of a unit that `buffer` holds from `first_block` on; those that are here already are
    /// left. `ahead`: some of them are for a reader still to come. What is to be kept is so if there is room
    /// for it when it has been used.
    void insert(const UnitKey& key, const ArenaBufferPtr& buffer, std::uint32_t first_block, BlockMask blocks,
                bool ahead, RamStay stay = RamStay::cached, DatasetNumber dataset = 0);

    /// What is done with what this dataset keeps here, for whom it may be released: TierShares.
    void retain(DatasetNumber dataset, Retention retention) { shares_.set(dataset, retention); }
    [[nodiscard]] std::uint64_t kept_by(DatasetNumber dataset) const { return shares_.used(dataset); }

    /// Whether a unit of so many bytes of the arena can come, ahead of its reader, and leave room for what
    /// readers will ask for sooner.
    [[nodiscard]] bool has_room_ahead(std::uint64_t bytes) const {
        const std::uint64_t ahead = ahead_.load(std::memory_order_relaxed) + bytes + kEntryOverhead;
        return ahead <= options_.ahead_limit / 4 * 3 &&
               used_.load(std::memory_order_relaxed) + ahead <= options_.limit;
    }
    /// Whether a unit of so many bytes of the arena would be kept. What is not kept gives way to it.
    [[nodiscard]] bool may_keep(std::uint64_t bytes) const {
        return kept_.load(std::memory_order_relaxed) + bytes + kEntryOverhead <= most_kept_;
    }
    /// The same, and releases what others keep beyond their share where that helps. Call `trim` afterwards.
    bool make_kept_room(std::uint64_t bytes, DatasetNumber dataset);

    /// Keeps what is here of a unit for this dataset, if there is room; says which blocks are kept then.
    /// `only_kept`: nothing that was not kept before.
    BlockMask keep(const UnitKey& key, DatasetNumber dataset, bool only_kept);

    /// What this dataset kept is under S3-FIFO from now on. Call `trim` afterwards.
    void release_kept(DatasetNumber dataset = 0);

    /// Gives a unit up.
    void erase(const UnitKey& key);

    /// What was neither brought nor read for `idle` seconds goes, but for what is kept of datasets that are
    /// pinned. `now`: seconds since whenever, the time of what happens until the next call. Returns about how
    /// many bytes went. Looks at everything.
    std::uint64_t demote(std::uint32_t now, std::uint32_t idle);
    /// The same without looking at anything.
    void set_time(std::uint32_t now) { now_.store(now, std::memory_order_relaxed); }

    /// Evicts until the limits hold.
    void trim();

    /// How far reclaim goes, each after what stands before it: data that was used once and that nobody holds; what
    /// was used more often; readahead that nobody holds, then what is kept; all entries that readers or the NVMe writer hold, so
    /// that their letting go frees the memory (and is noticed) rather than leaves it here.
    enum class Reclaim : std::uint8_t { used_once, used, all_free, held_too };

    /// Gives arena memory back for a fetch. Returns about how much came free at once: up to `bytes` and a
    /// bit.
    std::uint64_t reclaim(std::uint64_t bytes, Reclaim depth);

    [[nodiscard]] RamTierStats stats() const;

  private:
    struct Segment {
        ArenaBufferPtr buffer;
        BlockMask blocks = 0;
        std::uint32_t first_block = 0;  ///< where the buffer starts in the unit
    };
    struct Ahead {
        UnitKey key;
        std::uint64_t order = 0;  ///< of arrival, over all shards
    };
    enum class Queue : std::uint8_t { none, ahead, used, kept };
    struct Entry {
        std::vector<Segment> segments;
        std::uint64_t bytes = 0;
        Queue queue = Queue::none;
        RamStay stay = RamStay::passes;
        DatasetNumber dataset = 0;         ///< of what is kept
        std::uint32_t last = 0;            ///< second of the last use
        std::list<Ahead>::iterator ahead;  ///< valid in Queue::ahead
    };
    using Entries = std::unordered_map<UnitKey, Entry>;
    struct Shard {
        explicit Shard(std::uint64_t capacity) : used(capacity) {}
        Mutex mutex;
        Entries entries TIERFS_GUARDED_BY(mutex);
        S3Fifo<UnitKey> used TIERFS_GUARDED_BY(mutex);
        std::list<Ahead> ahead TIERFS_GUARDED_BY(mutex);
        /// Order of the oldest `ahead`; UINT64_MAX: none. Written under the lock.
        std::atomic<std::uint64_t> oldest_ahead{UINT64_MAX};
    };

    Shard& shard_of(const UnitKey& key) {
        return *shards_[(std::hash<UnitKey>{}(key) >> 20U) & (shards_.size() - 1)];
    }
    void touched(Shard& shard, Entries::iterator place, BlockMask want) TIERFS_REQUIRES(shard.mutex);
    /// It goes with its last byte.
    [[nodiscard]] bool passes(const Entry& entry) const;
    void add_ahead(Shard& shard, Entries::iterator place) TIERFS_REQUIRES(shard.mutex);
    /// Among what has been used: kept or not.
    void add_used(Shard& shard, Entries::iterator place) TIERFS_REQUIRES(shard.mutex);
    void leave_queue(Shard& shard, Entries::iterator place) TIERFS_REQUIRES(shard.mutex);
    [[nodiscard]] bool reserve_kept(std::uint64_t bytes);
    /// Releases kept entries of datasets that `may` allows until so many bytes are no longer kept.
    template <typename May>
    void release(std::uint64_t bytes, const May& may);
    void drop(Shard& shard, Entries::iterator place) TIERFS_REQUIRES(shard.mutex);
    [[nodiscard]] static bool freeable(const Entry& entry);
    bool evict_ahead();
    bool evict_used(Shard& shard);
    std::uint64_t reclaim_used(Shard& shard, std::uint64_t bytes, bool once);
    std::uint64_t reclaim_ahead(Shard& shard, std::uint64_t bytes);
    std::uint64_t reclaim_kept(Shard& shard, std::uint64_t bytes);
    void let_go_of_all(Shard& shard);

    const RamTierOptions options_;
    /// Less than the limit: what is not kept has to stay until the last of a file's readers is done with it.
    const std::uint64_t most_kept_;
    TierShares shares_;  ///< of most_kept_
    std::vector<std::unique_ptr<Shard>> shards_;
    std::atomic<std::uint64_t> used_{0}, ahead_{0}, kept_{0}, evicted_{0}, written_{0}, order_{0};
    std::atomic<std::uint32_t> now_{0};  ///< second
    std::atomic<std::size_t> hand_{0};   ///< the next shard to evict from
};

}  // namespace tierfs
