// The RAM tier: object data that stays in the arena after its fetch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "config/mutex.hpp"
#include "tiering/ram/arena.hpp"
#include "tiering/ram/unit.hpp"

namespace tierfs {

struct RamTierOptions {
    std::uint64_t limit = 0;        ///< bytes kept for another use; 0: nothing is kept once it has been used
    std::uint64_t ahead_limit = 0;  ///< bytes fetched ahead of the reader and not used yet
    unsigned shards = 16;           ///< a power of two
};

struct RamTierStats {
    std::uint64_t used_bytes = 0, ahead_bytes = 0, evicted_bytes = 0, written_bytes = 0;
};

/// Keeps blocks by unit (unit.hpp), in three queues per shard: `ahead` for what was fetched but not used yet
/// (first in, first out, never pushed out by reuse), `small` and `main` of S3-FIFO (Yang et al., "FIFO queues
/// are all you need for cache eviction", SOSP 2023) for the rest.
///
/// Thread-safe, one short lock per call; holds no data itself but shares of ArenaBuffers. `insert` does not
/// evict (it is called under other locks): call `trim` afterwards. Limits count the arena's bytes and
/// kEntryOverhead for each piece, so that tiny objects cannot make the tables outgrow the data.
class RamTier {
  public:
    static constexpr std::uint64_t kEntryOverhead = 256;

    explicit RamTier(const RamTierOptions& options);

    /// Calls visitor(buffer, blocks) for each buffer with some of the blocks `want`; `blocks` are numbered
    /// in the unit. Runs under the shard's lock: copy what is needed. `to_end`: the read goes to the unit's
    /// last byte. Returns the blocks found.
    template <typename Visitor>
    BlockMask visit(const UnitKey& key, BlockMask want, bool to_end, Visitor&& visitor) {
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
        if (have != 0) touched(shard, found->second, want, to_end);
        return have;
    }

    /// Which blocks of the unit are here.
    [[nodiscard]] BlockMask present(const UnitKey& key);

    /// Adds `blocks` of a unit that `buffer` holds from `first_block` on; those that are here already are
    /// left. `ahead`: some of them are for a reader still to come.
    void insert(const UnitKey& key, const ArenaBufferPtr& buffer, std::uint32_t first_block, BlockMask blocks,
                bool ahead);

    /// Evicts until the limits hold.
    void trim();

    /// How far reclaim goes, each after what stands before it: data that was used and that nobody holds;
    /// readahead that nobody holds; entries that readers or the NVMe writer hold, so that their letting go
    /// frees the memory (and is noticed) rather than leaves it here.
    enum class Reclaim : std::uint8_t { used, all_free, held_too };

    /// Gives arena memory back for a fetch. Returns about how much came free at once: up to `bytes` and a
    /// bit.
    std::uint64_t reclaim(std::uint64_t bytes, Reclaim depth);

    [[nodiscard]] RamTierStats stats() const;

  private:
    enum class Queue : std::uint8_t { ahead, small, main };
    static constexpr std::size_t kQueues = 3;

    struct Segment {
        ArenaBufferPtr buffer;
        BlockMask blocks = 0;
        std::uint32_t first_block = 0;  ///< where the buffer starts in the unit
    };
    struct Entry {
        UnitKey key;
        std::vector<Segment> segments;
        Entry *next = nullptr, *previous = nullptr;
        std::uint64_t bytes = 0;
        std::uint64_t order = 0;  ///< of arrival in its queue, over all shards
        Queue queue = Queue::small;
        std::uint8_t frequency = 0;
    };
    struct List {
        Entry *head = nullptr, *tail = nullptr;
        std::uint64_t bytes = 0;
        std::size_t count = 0;
    };
    struct Shard {
        Mutex mutex;
        std::unordered_map<UnitKey, Entry> entries TIERFS_GUARDED_BY(mutex);
        std::array<List, kQueues> lists TIERFS_GUARDED_BY(mutex);
        std::deque<std::uint64_t> ghost_order TIERFS_GUARDED_BY(mutex);
        std::unordered_set<std::uint64_t> ghosts TIERFS_GUARDED_BY(mutex);
        /// Entry::order of the oldest `ahead` entry; UINT64_MAX: none. Written under the lock.
        std::atomic<std::uint64_t> oldest_ahead{UINT64_MAX};
    };

    Shard& shard_of(const UnitKey& key) {
        return shards_[(std::hash<UnitKey>{}(key) >> 20U) & (shard_count_ - 1)];
    }
    static List& list(Shard& shard, Queue queue) TIERFS_REQUIRES(shard.mutex) {
        return shard.lists[static_cast<std::size_t>(queue)];
    }
    void touched(Shard& shard, Entry& entry, BlockMask want, bool to_end) TIERFS_REQUIRES(shard.mutex);
    void enqueue(Shard& shard, Entry& entry, Queue queue) TIERFS_REQUIRES(shard.mutex);
    void dequeue(Shard& shard, Entry& entry) TIERFS_REQUIRES(shard.mutex);
    void drop(Shard& shard, Entry& entry) TIERFS_REQUIRES(shard.mutex);
    void remember(Shard& shard, const UnitKey& key) TIERFS_REQUIRES(shard.mutex);
    [[nodiscard]] static bool freeable(const Entry& entry);
    bool evict_ahead();
    bool evict_one(Shard& shard);
    std::uint64_t reclaim_used(Shard& shard, std::uint64_t bytes);
    std::uint64_t reclaim_ahead(Shard& shard, std::uint64_t bytes);
    std::uint64_t let_go_of_held(Shard& shard, std::uint64_t bytes);
    std::atomic<std::uint64_t>& counter(Queue queue) { return queue == Queue::ahead ? ahead_ : used_; }

    const RamTierOptions options_;
    const unsigned shard_count_;
    std::unique_ptr<Shard[]> shards_;
    std::atomic<std::uint64_t> used_{0}, ahead_{0}, evicted_{0}, written_{0}, order_{0};
    std::atomic<unsigned> hand_{0};  ///< the next shard to evict from
};

}  // namespace tierfs
