// Requests to the origin, what happens when they are answered, and readahead.
#include <algorithm>
#include <utility>

#include "config/base/sync_point.hpp"
#include "tiering/store/store_impl.hpp"

namespace tierfs {

FlightPtr TieredStore::make_flight(const std::shared_ptr<const ObjectRef>& object, const UnitLayout& layout,
                                   std::uint64_t unit, std::uint32_t first, std::uint32_t count,
                                   ArenaBufferPtr buffer, bool prefetch) {
    auto flight = std::make_shared<Flight>();
    flight->object = object;
    flight->layout = layout;
    flight->key = UnitKey{object->content, unit};
    flight->first_block = first;
    flight->blocks = block_range(first, count);
    flight->buffer = std::move(buffer);
    flight->buffer->source = ArenaBuffer::Source::origin;
    flight->buffer->object_offset = layout.block_begin(unit, first);
    flight->buffer->set_size(layout.block_end(unit, first + count - 1) - flight->buffer->object_offset);
    flight->prefetch = prefetch;
    return flight;
}

void TieredStore::send(const FlightPtr& flight, Priority priority) {
    OriginRead request;
    request.path = flight->object->path;
    request.version = flight->object->version;
    request.offset = flight->buffer->object_offset;
    request.destination = flight->buffer->writable().first(flight->buffer->bytes().size());
    request.priority = priority;
    request.object_size = flight->object->size;
    request.done = [this, flight](Result<void> result) { complete(flight, std::move(result)); };
    const std::uint64_t size = request.destination.size();
    counters_.fetched.fetch_add(size, std::memory_order_relaxed);
    if (priority == Priority::fill)
        datasets_.of(*flight->object).filled.fetch_add(size, std::memory_order_relaxed);
    if (priority == Priority::prefetch) {
        counters_.prefetched.fetch_add(size, std::memory_order_relaxed);
        flight->buffer->fetched_ahead = true;
    }
    flight->sent = std::chrono::steady_clock::now();
    flight->is_waited_for = priority == Priority::demand && flight->layout.whole;
    if (flight->is_waited_for) {
        const std::uint64_t paced = counters_.paced_requests.load(std::memory_order_relaxed);
        flight->wait = {flight->sent, paced, counters_.fill_requests.load(std::memory_order_relaxed) > paced};
        pace_.waits(flight->wait);
    }
    origin_.read(std::move(request));
}

void TieredStore::time_fetch(const Flight& flight) {
    constexpr std::uint64_t kLargestSmall = 256U << 10U;
    const std::uint64_t size = flight.buffer->bytes().size();
    const bool small = size <= kLargestSmall;
    (small ? latencies_.fetch_small : latencies_.fetch_large)
        .add(std::chrono::steady_clock::now() - flight.sent);
    if (!small) fetches_large_bytes_.add(size);
}

void TieredStore::complete(const FlightPtr& flight, Result<void> result) {
    FlightTable::Shard& shard = flights_.shard(flight->key.id);
    std::vector<Flight::Waiter> waiters;
    bool was_prefetch = false, again = false;
    const auto now = RecentFailures::Clock::now();
    const bool failed_late = !result && RecentFailures::took_long(flight->sent, now);
    Dataset& dataset = datasets_.of(*flight->object);
    const Home home = result ? choose_home(dataset, *flight) : Home::none;
    if (result) time_fetch(*flight);
    // Before it is out of the table, too: RAM may give it up at once, and whoever looks then finds it there.
    if (home == Home::nvme) {
        nvme_->admit(flight->key.id, flight->layout.size, flight->buffer->object_offset, flight->buffer,
                     dataset.number, datasets_.codec_of(*flight->object));
    }
    TIERFS_SYNC_POINT("store.flight.completing");
    {
        MutexLock lock(shard.mutex);
        was_prefetch = flight->prefetch;
        // Readers who joined readahead get a request of their own rank before they get its error: unless they
        // would wait for an origin that does not answer a second time.
        again = !result && !failed_late && was_prefetch && !flight->waiters.empty() && !gate_.closed() &&
                result.error().code != ESTALE && result.error().code != ENOENT;
        flight->prefetch = false;
        if (!again) {
            waiters.swap(flight->waiters);
            if (failed_late && !waiters.empty() && result.error().code != ESTALE)
                shard.failures.add(flight->key, flight->blocks, result.error(), now);
            if (result) {
                BlockMask wanted = 0;
                for (const Flight::Waiter& waiter : waiters) wanted |= waiter.blocks;
                // In RAM before it is out of the table: whoever looks now finds it in one of the two.
                const bool ahead = (flight->blocks & ~wanted) != 0 && !(flight->fill && waiters.empty());
                ram_.insert(flight->key, flight->buffer, flight->first_block, flight->blocks, ahead,
                            ram_stay(dataset, home), dataset.number);
            }
            shard.remove(*flight);
        }
    }
    TIERFS_SYNC_POINT("store.flight.landed");
    if (flight->is_waited_for) pace_.answered(flight->wait, now, !result);
    const std::uint64_t memory = was_prefetch ? flight->buffer->capacity() : 0;
    if (was_prefetch && flight->fill) {
        counters_.fill_under_way.fetch_sub(memory);
        counters_.fill_requests.fetch_sub(1);
        if (flight->is_paced) counters_.paced_requests.fetch_sub(1);
        fill_.wake();
    }
    if (was_prefetch && !flight->fill) {
        counters_.prefetch_under_way.fetch_sub(memory);
        counters_.prefetch_requests.fetch_sub(1);
    }
    if (again) {
        send(flight, Priority::demand);
        return;
    }
    for (const Flight::Waiter& waiter : waiters) {
        if (result) {
            waiter.operation->pieces[waiter.piece].buffer = flight->buffer;
        } else {
            waiter.operation->set_error(result.error());
        }
        arrived(waiter.operation);
    }
    waiters.clear();
    if (result) {
        ram_.trim();
        if (!flight->layout.whole) top_up(flight->object, flight->layout);
    } else {
        prefetcher_.forget(flight->key.id);
    }
    // The origin may keep its copy of `done`, and with it the flight, for a while. A read that waits for
    // memory may find some now: what this flight brought can be evicted.
    flight->buffer.reset();
    admission_->memory_freed();
    if (flight->landed) flight->landed(result);
    gate_.leave();
}

void TieredStore::top_up(const std::shared_ptr<const ObjectRef>& object, const UnitLayout& layout) {
    if (object->archived || gate_.closed() || !prefetcher_.begin_issue(object->content)) return;
    do {
        while (auto part = prefetcher_.next(object->content)) {
            const std::uint64_t reached = prefetch(object, layout, *part);
            if (reached == part->end) continue;
            // Only what is left: where memory is too small for a part, its beginning would be fetched,
            // dropped and fetched again without end.
            part->begin = reached;
            prefetcher_.put_back(object->content, *part);
            break;
        }
    } while (prefetcher_.end_issue(object->content));
}

/// Not for who holds a lock. What was used once gives way before dear memory is touched for the first time; once there
/// is no such memory any more, S3-FIFO alone says what goes.
ArenaBufferPtr TieredStore::memory_for(std::uint64_t size, bool may_evict) {
    const std::uint64_t taken = Arena::rounded(size);
    ArenaBufferPtr buffer = arena_->allocate(size, Arena::Memory::resident);
    if (!buffer && may_evict && arena_->opened() < arena_->capacity() &&
        ram_.reclaim(taken, RamTier::Reclaim::used_once) > 0)
        buffer = arena_->allocate(size, Arena::Memory::resident);
    if (!buffer) buffer = arena_->allocate(size);
    if (!buffer && may_evict && ram_.reclaim(taken, RamTier::Reclaim::used) > 0)
        buffer = arena_->allocate(size);
    return buffer;
}

BlockMask TieredStore::missing(const ContentId& id, const UnitLayout& layout, std::uint64_t unit,
                               BlockMask blocks) {
    const UnitKey key{id, unit};
    blocks &= ~ram_.present(key);
    {
        FlightTable::Shard& shard = flights_.shard(id);
        MutexLock lock(shard.mutex);
        blocks &= ~shard.under_way(key);
    }
    return blocks & ~on_nvme(id, layout, unit, blocks);
}

std::uint64_t TieredStore::prefetch(const std::shared_ptr<const ObjectRef>& object, const UnitLayout& layout,
                                    const PrefetchPart& part) {
    const UnitKey key{object->content, layout.unit_of(part.begin)};
    const std::uint64_t begin = std::clamp(part.stream_begin, part.begin, part.end - 1);
    const BlockMask wanted =
        missing(object->content, layout, key.unit, layout.touched(key.unit, begin, part.end));
    std::uint64_t reached = part.end;
    for_each_run(wanted, longest_run_, [&](std::uint32_t first, std::uint32_t count) {
        if (reached != part.end) return;
        if (prefetch_run(object, layout, key.unit, first, count) == Prefetched::refused)
            reached = layout.block_begin(key.unit, first);
    });
    return reached;
}

/// False: not now.
bool TieredStore::prefetch_file(const std::shared_ptr<const ObjectRef>& object) {
    const UnitLayout layout = layout_of(object->size);
    if (!layout.whole) return true;  // once it is read
    const BlockMask wanted = missing(object->content, layout, 0, layout.blocks_of(0));
    bool taken = true;
    for_each_run(wanted, kLargestUnitBlocks, [&](std::uint32_t first, std::uint32_t count) {
        taken = taken && prefetch_run(object, layout, 0, first, count) == Prefetched::done;
    });
    return taken;
}

TieredStore::Prefetched TieredStore::prefetch_run(const std::shared_ptr<const ObjectRef>& object,
                                                  const UnitLayout& layout, std::uint64_t unit,
                                                  std::uint32_t first, std::uint32_t count) {
    const std::uint64_t size = layout.block_end(unit, first + count - 1) - layout.block_begin(unit, first);
    const std::uint64_t taken = Arena::rounded(size);
    if (gate_.closed() || admission_->busy() || counters_.prefetch_requests.load() >= most_ahead_ ||
        counters_.prefetch_under_way.load() + taken > prefetch_budget_) {
        return Prefetched::refused;
    }
    ArenaBufferPtr buffer = memory_for(size);
    if (!buffer) return Prefetched::refused;
    FlightPtr flight = make_flight(object, layout, unit, first, count, std::move(buffer), true);
    TIERFS_SYNC_POINT("store.prefetch.allocated");
    {
        FlightTable::Shard& shard = flights_.shard(object->content);
        MutexLock lock(shard.mutex);
        // Somebody was faster with a part of it: what is left will be asked for by who needs it.
        if ((flight->blocks & (shard.under_way(flight->key) | ram_.present(flight->key))) != 0) {
            return Prefetched::done;
        }
        shard.add(flight);
    }
    gate_.add();
    counters_.prefetch_under_way.fetch_add(flight->buffer->capacity());
    counters_.prefetch_requests.fetch_add(1);
    TIERFS_SYNC_POINT("store.prefetch.added");
    send(flight, Priority::prefetch);
    return Prefetched::done;
}

}  // namespace tierfs
