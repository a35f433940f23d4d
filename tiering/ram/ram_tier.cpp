#include "tiering/ram/ram_tier.hpp"

#include <algorithm>

namespace tierfs {

namespace {

/// For what passes by while all else is kept: enough for the files that some dozen readers are busy with.
std::uint64_t left_for_passing(std::uint64_t limit) {
    const std::uint64_t least = std::min(limit / 32, std::uint64_t{2} << 20);
    return std::clamp(limit / 128, least, std::uint64_t{64} << 20);
}

}  // namespace

RamTier::RamTier(const RamTierOptions& options)
    : options_(options), most_kept_(options.limit - left_for_passing(options.limit)), shares_(most_kept_) {
    const unsigned count = std::max(1U, options.shards);
    for (unsigned i = 0; i < count; ++i) shards_.push_back(std::make_unique<Shard>(options.limit / count));
}

BlockMask RamTier::present(const UnitKey& key) {
    Shard& shard = shard_of(key);
    MutexLock lock(shard.mutex);
    const auto found = shard.entries.find(key);
    if (found == shard.entries.end()) return 0;
    BlockMask blocks = 0;
    for (const Segment& segment : found->second.segments) blocks |= segment.blocks;
    return blocks;
}

void RamTier::touched(Shard& shard, Entries::iterator place, BlockMask want) {
    Entry& entry = place->second;
    entry.last = now_.load(std::memory_order_relaxed);
    if (entry.queue != Queue::ahead) {
        if (entry.queue == Queue::used) shard.used.touch(place->first);
        return;
    }
    for (const Segment& segment : entry.segments) {
        const BlockMask used = segment.buffer->used.load(std::memory_order_relaxed) << segment.first_block;
        if ((segment.blocks & ~(used | want)) != 0) return;
    }
    // Nothing is ahead of the reader any more. Without a tier to keep it in, a reader of small pieces still
    // needs the rest of the last block: see over().
    if (passes(entry)) return;
    leave_queue(shard, place);
    add_used(shard, place);
}

bool RamTier::passes(const Entry& entry) const {
    return options_.limit == 0 || entry.stay == RamStay::passes;
}

void RamTier::over(const UnitKey& key) {
    Shard& shard = shard_of(key);
    MutexLock lock(shard.mutex);
    const auto place = shard.entries.find(key);
    if (place == shard.entries.end()) return;
    const Entry& entry = place->second;
    if (entry.queue != Queue::ahead || !passes(entry)) return;
    const bool all = std::all_of(entry.segments.begin(), entry.segments.end(),
                                 [](const Segment& segment) { return segment.buffer->is_over(); });
    if (all) drop(shard, place);
}

void RamTier::insert(const UnitKey& key, const ArenaBufferPtr& buffer, std::uint32_t first_block,
                     BlockMask blocks, bool ahead, RamStay stay, DatasetNumber dataset) {
    if (options_.limit == 0 && !ahead) return;
    Shard& shard = shard_of(key);
    MutexLock lock(shard.mutex);
    if (stay == RamStay::passes && !ahead && !shard.entries.contains(key)) return;
    const auto [place, is_new] = shard.entries.try_emplace(key);
    Entry& entry = place->second;
    entry.last = now_.load(std::memory_order_relaxed);
    for (const Segment& segment : entry.segments) blocks &= ~segment.blocks;
    if (blocks == 0) return;  // so it is not new
    const std::uint64_t bytes = buffer->capacity() + kEntryOverhead;
    entry.stay = std::max(entry.stay, stay);
    if (stay == RamStay::kept) entry.dataset = dataset;
    ahead = ahead || entry.queue == Queue::ahead;
    const bool grows =
        !ahead && entry.queue == Queue::used && entry.stay != RamStay::kept;  // and stays where it is in line
    if (!is_new && !grows) leave_queue(shard, place);
    entry.segments.push_back(Segment{buffer, blocks, first_block});
    entry.bytes += bytes;
    written_.fetch_add(buffer->bytes().size(), std::memory_order_relaxed);
    if (ahead) {
        add_ahead(shard, place);
    } else if (grows) {
        shard.used.resize(key, entry.bytes);
        used_.fetch_add(bytes, std::memory_order_relaxed);
    } else {
        add_used(shard, place);
    }
}

void RamTier::add_ahead(Shard& shard, Entries::iterator place) {
    Entry& entry = place->second;
    entry.queue = Queue::ahead;
    entry.ahead = shard.ahead.insert(shard.ahead.end(),
                                     Ahead{place->first, order_.fetch_add(1, std::memory_order_relaxed)});
    ahead_.fetch_add(entry.bytes, std::memory_order_relaxed);
    shard.oldest_ahead.store(shard.ahead.front().order, std::memory_order_relaxed);
}

bool RamTier::reserve_kept(std::uint64_t bytes) {
    if (kept_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most_kept_) return true;
    kept_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
}

void RamTier::add_used(Shard& shard, Entries::iterator place) {
    Entry& entry = place->second;
    if (entry.stay == RamStay::kept && reserve_kept(entry.bytes)) {
        entry.queue = Queue::kept;
        shares_.add(entry.dataset, entry.bytes);
        return;
    }
    entry.queue = Queue::used;
    shard.used.insert(place->first, entry.bytes);
    used_.fetch_add(entry.bytes, std::memory_order_relaxed);
}

void RamTier::leave_queue(Shard& shard, Entries::iterator place) {
    Entry& entry = place->second;
    if (entry.queue == Queue::kept) {
        kept_.fetch_sub(entry.bytes, std::memory_order_relaxed);
        shares_.remove(entry.dataset, entry.bytes);
    } else if (entry.queue == Queue::used) {
        shard.used.erase(place->first);  // not there any more where S3-FIFO chose it
        used_.fetch_sub(entry.bytes, std::memory_order_relaxed);
    } else if (entry.queue == Queue::ahead) {
        shard.ahead.erase(entry.ahead);
        ahead_.fetch_sub(entry.bytes, std::memory_order_relaxed);
        shard.oldest_ahead.store(shard.ahead.empty() ? UINT64_MAX : shard.ahead.front().order,
                                 std::memory_order_relaxed);
    }
    entry.queue = Queue::none;
}

template <typename May>
void RamTier::release(std::uint64_t bytes, const May& may) {
    for (const auto& each : shards_) {
        Shard& shard = *each;
        MutexLock lock(shard.mutex);
        for (auto place = shard.entries.begin(); place != shard.entries.end() && bytes > 0; ++place) {
            Entry& entry = place->second;
            if (entry.stay != RamStay::kept || !may(entry.dataset)) continue;
            entry.stay = RamStay::cached;
            if (entry.queue != Queue::kept) continue;
            bytes -= std::min(bytes, entry.bytes);
            leave_queue(shard, place);
            add_used(shard, place);
        }
    }
}

void RamTier::release_kept(DatasetNumber dataset) {
    release(UINT64_MAX, [&](DatasetNumber owner) { return owner == dataset; });
}

bool RamTier::make_kept_room(std::uint64_t bytes, DatasetNumber dataset) {
    shares_.ask(dataset);
    const std::uint64_t needed = bytes + kEntryOverhead;
    if (may_keep(bytes)) return true;
    if (!shares_.may_displace_any(dataset, needed)) return false;
    // A look at all entries is worth more than one unit.
    release(std::max(needed, most_kept_ / 64),
            [&](DatasetNumber owner) { return shares_.may_displace(dataset, owner, needed); });
    return may_keep(bytes);
}

std::uint64_t RamTier::demote(std::uint32_t now, std::uint32_t idle) {
    set_time(now);
    std::uint64_t freed = 0;
    for (const auto& each : shards_) {
        Shard& shard = *each;
        MutexLock lock(shard.mutex);
        for (auto next = shard.entries.begin(); next != shard.entries.end();) {
            const auto place = next++;
            const Entry& entry = place->second;
            const bool is_pinned =
                entry.queue == Queue::kept && shares_.get(entry.dataset) == Retention::pinned;
            if (is_pinned || now - entry.last < idle || now < entry.last) continue;
            freed += entry.bytes;
            drop(shard, place);
        }
    }
    return freed;
}

BlockMask RamTier::keep(const UnitKey& key, DatasetNumber dataset, bool only_kept) {
    Shard& shard = shard_of(key);
    MutexLock lock(shard.mutex);
    const auto place = shard.entries.find(key);
    if (place == shard.entries.end()) return 0;
    Entry& entry = place->second;
    if (only_kept && entry.stay != RamStay::kept) return 0;
    leave_queue(shard, place);
    entry.stay = RamStay::kept;
    entry.dataset = dataset;
    add_used(shard, place);
    if (entry.queue != Queue::kept) return 0;
    BlockMask blocks = 0;
    for (const Segment& segment : entry.segments) blocks |= segment.blocks;
    return blocks;
}

void RamTier::drop(Shard& shard, Entries::iterator place) {
    Entry& entry = place->second;
    leave_queue(shard, place);
    for (const Segment& segment : entry.segments) {
        evicted_.fetch_add(segment.buffer->bytes().size(), std::memory_order_relaxed);
    }
    shard.entries.erase(place);
}

void RamTier::erase(const UnitKey& key) {
    Shard& shard = shard_of(key);
    MutexLock lock(shard.mutex);
    if (const auto place = shard.entries.find(key); place != shard.entries.end()) drop(shard, place);
}

bool RamTier::evict_ahead() {
    Shard* oldest = nullptr;
    std::uint64_t order = UINT64_MAX;
    for (const auto& shard : shards_) {
        const std::uint64_t candidate = shard->oldest_ahead.load(std::memory_order_relaxed);
        if (candidate >= order) continue;
        order = candidate;
        oldest = shard.get();
    }
    if (oldest == nullptr) return false;
    MutexLock lock(oldest->mutex);
    if (oldest->ahead.empty()) return true;  // used meanwhile; the caller looks again
    const auto place = oldest->entries.find(oldest->ahead.front().key);
    if (passes(place->second)) {
        drop(*oldest, place);
    } else {
        leave_queue(*oldest, place);
        add_used(*oldest, place);
    }
    return true;
}

bool RamTier::evict_used(Shard& shard) {
    MutexLock lock(shard.mutex);
    const auto key = shard.used.evict();
    if (!key) return false;
    drop(shard, shard.entries.find(*key));
    return true;
}

void RamTier::trim() {
    while (ahead_.load(std::memory_order_relaxed) > options_.ahead_limit && evict_ahead()) {
    }
    std::size_t empty = 0;
    const auto too_much = [this] {
        return used_.load(std::memory_order_relaxed) + kept_.load(std::memory_order_relaxed) > options_.limit;
    };
    while (too_much() && empty < shards_.size()) {
        Shard& shard = *shards_[hand_.fetch_add(1, std::memory_order_relaxed) & (shards_.size() - 1)];
        empty = evict_used(shard) ? 0 : empty + 1;
    }
}

bool RamTier::freeable(const Entry& entry) {
    return std::any_of(entry.segments.begin(), entry.segments.end(),
                       [](const Segment& segment) { return segment.buffer.use_count() == 1; });
}

std::uint64_t RamTier::reclaim_used(Shard& shard, std::uint64_t bytes, bool once) {
    MutexLock lock(shard.mutex);
    const Entries* const entries = &shard.entries;  // the analysis of locks does not see into the lambda
    std::uint64_t freed = 0;
    while (freed < bytes) {
        const auto may = [&](const UnitKey& candidate) { return freeable(entries->at(candidate)); };
        const auto key = once ? shard.used.evict_new(may) : shard.used.evict(may);
        if (!key) break;
        const auto place = shard.entries.find(*key);
        freed += place->second.bytes;
        drop(shard, place);
    }
    return freed;
}

std::uint64_t RamTier::reclaim_ahead(Shard& shard, std::uint64_t bytes) {
    MutexLock lock(shard.mutex);
    std::uint64_t freed = 0;
    for (auto next = shard.ahead.begin(); next != shard.ahead.end() && freed < bytes;) {
        const auto place = shard.entries.find(next->key);
        ++next;
        if (!freeable(place->second)) continue;
        freed += place->second.bytes;
        drop(shard, place);
    }
    return freed;
}

std::uint64_t RamTier::reclaim_kept(Shard& shard, std::uint64_t bytes) {
    MutexLock lock(shard.mutex);
    std::uint64_t freed = 0;
    for (auto next = shard.entries.begin(); next != shard.entries.end() && freed < bytes;) {
        const auto place = next++;
        if (place->second.queue != Queue::kept || !freeable(place->second)) continue;
        freed += place->second.bytes;
        drop(shard, place);
    }
    return freed;
}

void RamTier::let_go_of_all(Shard& shard) {
    MutexLock lock(shard.mutex);
    while (!shard.entries.empty()) drop(shard, shard.entries.begin());
}

std::uint64_t RamTier::reclaim(std::uint64_t bytes, Reclaim depth) {
    const std::size_t start = hand_.fetch_add(1, std::memory_order_relaxed);
    const auto over_shards = [&](auto&& reclaim_in) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < shards_.size() && sum < bytes; ++i) {
            sum += reclaim_in(*shards_[(start + i) & (shards_.size() - 1)], bytes - sum);
        }
        return sum;
    };
    const bool once = depth == Reclaim::used_once;
    std::uint64_t freed =
        over_shards([=, this](Shard& shard, std::uint64_t n) { return reclaim_used(shard, n, once); });
    if (freed == 0 && depth > Reclaim::used) {
        freed = over_shards([this](Shard& shard, std::uint64_t n) { return reclaim_ahead(shard, n); });
    }
    if (freed == 0 && depth > Reclaim::used && kept_.load(std::memory_order_relaxed) > 0) {
        freed = over_shards([this](Shard& shard, std::uint64_t n) { return reclaim_kept(shard, n); });
    }
    if (freed == 0 && depth == Reclaim::held_too) {
        // All that is left is held, and nobody can tell who lets go first.
        for (const auto& shard : shards_) let_go_of_all(*shard);
    }
    return freed;
}

RamTierStats RamTier::stats() const {
    return RamTierStats{used_.load(std::memory_order_relaxed), ahead_.load(std::memory_order_relaxed),
                        kept_.load(std::memory_order_relaxed), evicted_.load(std::memory_order_relaxed),
                        written_.load(std::memory_order_relaxed)};
}

}  // namespace tierfs
