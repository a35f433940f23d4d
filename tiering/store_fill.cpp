// The fill: what the tiers have room for, fetched in the background.
#include <algorithm>

#include "tiering/store_impl.hpp"

namespace tierfs {
namespace {

constexpr std::chrono::milliseconds kFillTick{10};
constexpr std::uint64_t kMostUnderWay = 8 << 20;
constexpr int kTicksUntilFull = 5;

}  // namespace

DatasetFill::Offered TieredStore::fill_object(const std::shared_ptr<const ObjectRef>& object) {
    const UnitLayout layout = layout_of(object->size);
    auto offered = DatasetFill::Offered::taken;
    for (std::uint64_t unit = 0; unit <= layout.unit_of(object->size - 1) && !fill_.stopping(); ++unit) {
        const BlockMask wanted = missing(object->content, layout, unit, layout.blocks_of(unit));
        const std::uint32_t longest = layout.whole ? kLargestUnitBlocks : longest_run_;
        for_each_run(wanted, longest, [&](std::uint32_t first, std::uint32_t count) {
            if (offered == DatasetFill::Offered::taken)
                offered = fill_run(object, layout, unit, first, count);
        });
        if (offered == DatasetFill::Offered::full) break;
    }
    return offered;
}

ArenaBufferPtr TieredStore::fill_memory(std::uint64_t size) {
    const std::uint64_t taken = Arena::rounded(size);
    const std::uint64_t most = std::min(prefetch_budget_ / 4, kMostUnderWay);
    // A part of the memory only, and none while readers wait for some.
    while (!fill_.stopping()) {
        const std::uint64_t under_way = counters_.fill_under_way.load();
        if (!admission_->busy() && (under_way == 0 || under_way + fill_weight(taken) <= most)) {
            ArenaBufferPtr buffer = arena_->allocate(size);
            if (!buffer && ram_.reclaim(taken, RamTier::Reclaim::used) > 0) buffer = arena_->allocate(size);
            if (buffer) return buffer;
        }
        fill_.pause(kFillTick);
    }
    return nullptr;
}

DatasetFill::Offered TieredStore::fill_run(const std::shared_ptr<const ObjectRef>& object,
                                           const UnitLayout& layout, std::uint64_t unit, std::uint32_t first,
                                           std::uint32_t count) {
    const std::uint64_t size = layout.block_end(unit, first + count - 1) - layout.block_begin(unit, first);
    // What is under way goes to what is left of the tier: near its end, wait for it.
    for (int tick = 0; !nvme_takes(layout, size) && !ram_.may_keep(Arena::rounded(size)); ++tick) {
        if (tick == kTicksUntilFull || !fill_.pause(kFillTick)) return DatasetFill::Offered::full;
    }
    ArenaBufferPtr buffer = fill_memory(size);
    if (!buffer) return DatasetFill::Offered::full;
    FlightPtr flight = make_flight(object, layout, unit, first, count, std::move(buffer), true);
    flight->fill = true;
    {
        FlightTable::Shard& shard = flights_.shard(object->content);
        MutexLock lock(shard.mutex);
        if ((flight->blocks & (shard.under_way(flight->key) | ram_.present(flight->key))) != 0)
            return DatasetFill::Offered::taken;  // a reader was faster
        shard.add(flight);
    }
    gate_.add();
    counters_.fill_under_way.fetch_add(fill_weight(flight->buffer->capacity()));
    send(flight, Priority::fill);
    return DatasetFill::Offered::taken;
}

}  // namespace tierfs
