#include "tiering/ram/ram_tier.hpp"

#include <algorithm>

namespace tierfs {

namespace {
constexpr std::uint8_t kMaxFrequency = 3;
constexpr std::size_t kFewestGhosts = 64;
}  // namespace

RamTier::RamTier(const RamTierOptions& options)
    : options_(options),
      shard_count_(std::max(1U, options.shards)),
      shards_(std::make_unique<Shard[]>(shard_count_)) {}

BlockMask RamTier::present(const UnitKey& key) {
    Shard& shard = shard_of(key);
    MutexLock lock(shard.mutex);
    const auto found = shard.entries.find(key);
    if (found == shard.entries.end()) return 0;
    BlockMask blocks = 0;
    for (const Segment& segment : found->second.segments) blocks |= segment.blocks;
    return blocks;
}

void RamTier::touched(Shard& shard, Entry& entry, BlockMask want, bool to_end) {
    if (entry.frequency < kMaxFrequency) ++entry.frequency;
    if (entry.queue != Queue::ahead) return;
    for (const Segment& segment : entry.segments) {
        const BlockMask used = segment.buffer->used.load(std::memory_order_relaxed) << segment.first_block;
        if ((segment.blocks & ~(used | want)) != 0) return;
    }
    // Nothing is ahead of the reader any more. Without a tier to keep it in, a reader of small pieces still
    // needs the rest of the last block.
    if (options_.limit == 0) {
        if (to_end) drop(shard, entry);
        return;
    }
    dequeue(shard, entry);
    entry.frequency = 0;
    enqueue(shard, entry,
            shard.ghosts.contains(std::hash<UnitKey>{}(entry.key)) ? Queue::main : Queue::small);
}

void RamTier::insert(const UnitKey& key, const ArenaBufferPtr& buffer, std::uint32_t first_block,
                     BlockMask blocks, bool ahead) {
    if (options_.limit == 0 && !ahead) return;
    Shard& shard = shard_of(key);
    MutexLock lock(shard.mutex);
    const auto [place, is_new] = shard.entries.try_emplace(key);
    Entry& entry = place->second;
    for (const Segment& segment : entry.segments) blocks &= ~segment.blocks;
    if (blocks == 0) {
        if (is_new) shard.entries.erase(place);
        return;
    }
    Queue queue = ahead ? Queue::ahead : Queue::small;
    if (!is_new) {
        if (!ahead) queue = entry.queue;
        dequeue(shard, entry);
    } else {
        entry.key = key;
        if (!ahead && shard.ghosts.contains(std::hash<UnitKey>{}(key))) queue = Queue::main;
    }
    entry.segments.push_back(Segment{buffer, blocks, first_block});
    entry.bytes += buffer->capacity() + kEntryOverhead;
    written_.fetch_add(buffer->bytes().size(), std::memory_order_relaxed);
    enqueue(shard, entry, queue);
}

void RamTier::enqueue(Shard& shard, Entry& entry, Queue queue) {
    List& target = list(shard, queue);
    entry.queue = queue;
    entry.order = order_.fetch_add(1, std::memory_order_relaxed);
    entry.next = nullptr;
    entry.previous = target.tail;
    (target.tail != nullptr ? target.tail->next : target.head) = &entry;
    target.tail = &entry;
    target.bytes += entry.bytes;
    ++target.count;
    counter(queue).fetch_add(entry.bytes, std::memory_order_relaxed);
    if (queue == Queue::ahead) shard.oldest_ahead.store(target.head->order, std::memory_order_relaxed);
}

void RamTier::dequeue(Shard& shard, Entry& entry) {
    List& from = list(shard, entry.queue);
    (entry.previous != nullptr ? entry.previous->next : from.head) = entry.next;
    (entry.next != nullptr ? entry.next->previous : from.tail) = entry.previous;
    from.bytes -= entry.bytes;
    --from.count;
    counter(entry.queue).fetch_sub(entry.bytes, std::memory_order_relaxed);
    if (entry.queue == Queue::ahead) {
        shard.oldest_ahead.store(from.head != nullptr ? from.head->order : UINT64_MAX,
                                 std::memory_order_relaxed);
    }
}

void RamTier::drop(Shard& shard, Entry& entry) {
    dequeue(shard, entry);
    for (const Segment& segment : entry.segments) {
        evicted_.fetch_add(segment.buffer->bytes().size(), std::memory_order_relaxed);
    }
    const UnitKey key = entry.key;  // erase(entry.key) would read a key that dies on the way
    shard.entries.erase(key);
}

void RamTier::remember(Shard& shard, const UnitKey& key) {
    const std::uint64_t hash = std::hash<UnitKey>{}(key);
    if (shard.ghosts.insert(hash).second) shard.ghost_order.push_back(hash);
    const std::size_t most = std::max(kFewestGhosts, list(shard, Queue::main).count);
    while (shard.ghost_order.size() > most) {
        shard.ghosts.erase(shard.ghost_order.front());
        shard.ghost_order.pop_front();
    }
}

bool RamTier::evict_ahead() {
    Shard* oldest = nullptr;
    std::uint64_t order = UINT64_MAX;
    for (unsigned i = 0; i < shard_count_; ++i) {
        const std::uint64_t candidate = shards_[i].oldest_ahead.load(std::memory_order_relaxed);
        if (candidate < order) {
            order = candidate;
            oldest = &shards_[i];
        }
    }
    if (oldest == nullptr) return false;
    MutexLock lock(oldest->mutex);
    Entry* entry = list(*oldest, Queue::ahead).head;
    if (entry == nullptr) return true;  // used meanwhile; the caller looks again
    if (options_.limit == 0) {
        drop(*oldest, *entry);
    } else {
        dequeue(*oldest, *entry);
        enqueue(*oldest, *entry, Queue::small);
    }
    return true;
}

bool RamTier::evict_one(Shard& shard) {
    MutexLock lock(shard.mutex);
    List& small = list(shard, Queue::small);
    List& main = list(shard, Queue::main);
    // Each step either evicts or lowers a frequency, so this ends.
    while (small.head != nullptr || main.head != nullptr) {
        const bool from_small = main.head == nullptr || small.bytes * 10 > small.bytes + main.bytes;
        Entry& entry = from_small ? *small.head : *main.head;
        if (entry.frequency == 0) {
            if (from_small) remember(shard, entry.key);
            drop(shard, entry);
            return true;
        }
        entry.frequency = from_small ? std::uint8_t{0} : static_cast<std::uint8_t>(entry.frequency - 1);
        dequeue(shard, entry);
        enqueue(shard, entry, Queue::main);
    }
    return false;
}

void RamTier::trim() {
    while (ahead_.load(std::memory_order_relaxed) > options_.ahead_limit && evict_ahead()) {
    }
    unsigned empty = 0;
    while (used_.load(std::memory_order_relaxed) > options_.limit && empty < shard_count_) {
        Shard& shard = shards_[hand_.fetch_add(1, std::memory_order_relaxed) & (shard_count_ - 1)];
        empty = evict_one(shard) ? 0 : empty + 1;
    }
}

bool RamTier::freeable(const Entry& entry) {
    return std::any_of(entry.segments.begin(), entry.segments.end(),
                       [](const Segment& segment) { return segment.buffer.use_count() == 1; });
}

std::uint64_t RamTier::reclaim_used(Shard& shard, std::uint64_t bytes) {
    MutexLock lock(shard.mutex);
    std::uint64_t freed = 0;
    for (const Queue queue : {Queue::small, Queue::main}) {
        std::size_t left = list(shard, queue).count;  // what is moved to the back is not met twice
        for (Entry* entry = list(shard, queue).head; left > 0 && freed < bytes; --left) {
            Entry& here = *entry;
            entry = entry->next;
            if (!freeable(here)) continue;
            if (queue == Queue::small && here.frequency > 0) {
                here.frequency = 0;
                dequeue(shard, here);
                enqueue(shard, here, Queue::main);
                continue;
            }
            freed += here.bytes;
            if (queue == Queue::small) remember(shard, here.key);
            drop(shard, here);
        }
    }
    return freed;
}

std::uint64_t RamTier::reclaim_ahead(Shard& shard, std::uint64_t bytes) {
    MutexLock lock(shard.mutex);
    std::uint64_t freed = 0;
    for (Entry* entry = list(shard, Queue::ahead).head; entry != nullptr && freed < bytes;) {
        Entry& here = *entry;
        entry = entry->next;
        if (!freeable(here)) continue;
        freed += here.bytes;
        drop(shard, here);
    }
    return freed;
}

std::uint64_t RamTier::let_go_of_held(Shard& shard, std::uint64_t bytes) {
    MutexLock lock(shard.mutex);
    std::uint64_t dropped = 0;
    for (const Queue queue : {Queue::small, Queue::main, Queue::ahead}) {
        while (dropped < bytes && list(shard, queue).head != nullptr) {
            dropped += list(shard, queue).head->bytes;
            drop(shard, *list(shard, queue).head);
        }
    }
    return dropped;
}

std::uint64_t RamTier::reclaim(std::uint64_t bytes, Reclaim depth) {
    const unsigned start = hand_.fetch_add(1, std::memory_order_relaxed);
    const auto over_shards = [&](auto&& reclaim_in) {
        std::uint64_t sum = 0;
        for (unsigned i = 0; i < shard_count_ && sum < bytes; ++i) {
            sum += reclaim_in(shards_[(start + i) & (shard_count_ - 1)], bytes - sum);
        }
        return sum;
    };
    std::uint64_t freed =
        over_shards([this](Shard& shard, std::uint64_t n) { return reclaim_used(shard, n); });
    if (freed == 0 && depth != Reclaim::used) {
        freed = over_shards([this](Shard& shard, std::uint64_t n) { return reclaim_ahead(shard, n); });
    }
    if (freed == 0 && depth == Reclaim::held_too) {
        over_shards([this](Shard& shard, std::uint64_t n) { return let_go_of_held(shard, n); });
    }
    return freed;
}

RamTierStats RamTier::stats() const {
    return RamTierStats{used_.load(std::memory_order_relaxed), ahead_.load(std::memory_order_relaxed),
                        evicted_.load(std::memory_order_relaxed), written_.load(std::memory_order_relaxed)};
}

}  // namespace tierfs
