// The fill: what the tiers have room for, fetched in the background.
#include <algorithm>

#include "tiering/store_impl.hpp"

namespace tierfs {
namespace {

constexpr std::chrono::milliseconds kFillTick{10};
constexpr int kTicksUntilFull = 5;
/// Memory of the fill's requests under way: at 20 ms to the first byte that is 3 GB/s of large parts.
constexpr std::uint64_t kMostUnderWay = 64 << 20;
/// What a fill that nobody asked for may bring in vain, before readers have shown that they want it.
constexpr std::uint64_t kMostRisk = 256 << 20;

}  // namespace

void TieredStore::start_fill() {
    bool asked = false, watched = false;
    for (std::size_t number = 0; number < datasets_.count(); ++number) {
        const Dataset& dataset = datasets_.at(number);
        asked = asked || is_filled(dataset);
        watched = watched || !dataset.policy.is_configured();
    }
    DatasetFill::Options options;
    options.share = share_;
    // What is recognised as an epoch may be one of a part of the files, but for a share that was named. One
    // walk serves the whole mount: where a rule asks for all of its files, none is left for what is guessed.
    fills_recognised_ = watched && (share_.count > 1 || !asked);
    if (!asked && !fills_recognised_) return;
    if (!asked && share_.count == 1) {
        options.scope = DatasetFill::Scope::recognised;
        const std::uint64_t tiers = plan_.ram_tier + (nvme_ != nullptr ? nvme_->stats().limit_bytes : 0);
        options.risk = std::min(tiers / 4, kMostRisk);
    }
    gate_.add();
    fill_.start(options, [this] { gate_.leave(); });
}

bool TieredStore::fill_brings(const Dataset& dataset) const {
    if (dataset.policy.is_configured()) return is_filled(dataset);
    const DatasetClass now = dataset.policy.current();
    return fills_recognised_ && (now == DatasetClass::epoch || now == DatasetClass::automatic);
}

bool TieredStore::fill_may_send(std::uint64_t size) const {
    const std::uint64_t bytes = counters_.fill_under_way.load();
    return bytes == 0 || (bytes + size <= std::min(prefetch_budget_ / 4, kMostUnderWay) &&
                          counters_.fill_requests.load() < most_ahead_);
}

DatasetFill::Offered TieredStore::fill_object(const std::shared_ptr<const ObjectRef>& object) {
    const Dataset& dataset = datasets_.of(*object);
    if (!fill_brings(dataset)) return DatasetFill::Offered::passed;
    if (nvme_ != nullptr) nvme_->claim(object->content, dataset.number);
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
    // A part of the memory only, and none while readers wait for some.
    while (!fill_.stopping()) {
        if (!admission_->busy() && fill_may_send(taken)) {
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
                                           std::uint32_t count, const std::shared_ptr<Warming>& warming) {
    const std::uint64_t size = layout.block_end(unit, first + count - 1) - layout.block_begin(unit, first);
    // What is under way goes to what is left of the tier: near its end, wait for it.
    Dataset& dataset = datasets_.of(*object);
    const auto fits_ram = [&] {
        return ram_.make_kept_room(Arena::rounded(size) + counters_.fill_under_way.load(), dataset.number);
    };
    for (int tick = 0; !nvme_takes(dataset, layout, size) && !fits_ram();) {
        if (tick == kTicksUntilFull || !fill_.pause(kFillTick)) return DatasetFill::Offered::full;
        if (counters_.fill_under_way.load() == 0) ++tick;
    }
    ArenaBufferPtr buffer = fill_memory(size);
    if (!buffer) return DatasetFill::Offered::full;
    FlightPtr flight = make_flight(object, layout, unit, first, count, std::move(buffer), true);
    flight->fill = true;
    if (warming)
        flight->landed = [warming, size](const Result<void>& result) { warming->end_part(size, result); };
    {
        FlightTable::Shard& shard = flights_.shard(object->content);
        MutexLock lock(shard.mutex);
        if ((flight->blocks & (shard.under_way(flight->key) | ram_.present(flight->key))) != 0)
            return DatasetFill::Offered::taken;  // a reader was faster
        shard.add(flight);
    }
    if (warming) warming->begin_part();
    gate_.add();
    counters_.fill_under_way.fetch_add(flight->buffer->capacity());
    counters_.fill_requests.fetch_add(1);
    send(flight, Priority::fill);
    return DatasetFill::Offered::taken;
}

}  // namespace tierfs
