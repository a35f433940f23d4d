// The fill: what the tiers have room for, fetched in the background.
#include <algorithm>

#include "tiering/store/store_impl.hpp"

namespace tierfs {
namespace {

/// Memory of the fill's requests under way: at 20 ms to the first byte that is 3 GB/s of large parts.
constexpr std::uint64_t kMostUnderWay = 64 << 20;
/// What a fill that nobody asked for may bring in vain, before readers have shown that they want it.
constexpr std::uint64_t kMostRisk = 256 << 20;
/// One file of a dataset may be too large where others still fit.
constexpr unsigned kRefusals = 32;

}  // namespace

void TieredStore::start_fill() {
    bool asked = false, watched = false;
    for (std::size_t number = 0; number < datasets_.count(); ++number) {
        const Dataset& dataset = datasets_.at(number);
        asked = asked || is_filled(dataset);
        watched = watched || !dataset.policy.is_configured();
    }
    watched = watched && (watches_ || share_.count > 1);
    DatasetFill::Options options;
    options.share = share_;
    options.stays = true;
    options.begins = [this] {
        for (std::size_t number = 0; number < datasets_.count(); ++number) {
            datasets_.at(number).fill_offered = 0;
            datasets_.at(number).fill_refused = 0;
        }
    };
    options.settles = [this] { settle_fill(); };
    // What is recognised as an epoch may be one of a part of the files, but for a share that was named.
    const bool shared = share_.count > 1;
    fills_recognised_ = watched;
    options.scope = asked || (watched && shared) ? DatasetFill::Scope::all
                    : watched                    ? DatasetFill::Scope::recognised
                                                 : DatasetFill::Scope::none;
    options.recognises = watched && !shared;
    const std::uint64_t tiers = plan_.ram_tier + (nvme_ != nullptr ? nvme_->stats().limit_bytes : 0);
    options.risk = std::min(tiers / 4, kMostRisk);
    options.may_offer = [this] {
        return pace_.may_send(counters_.paced_requests.load(), FillPace::Clock::now());
    };
    options.found = [this](std::uint64_t files) { pace_.found(files); };
    gate_.add();
    fill_.start(options, [this] { gate_.leave(); });
}

bool TieredStore::fill_brings(const Dataset& dataset) const {
    if (dataset.policy.is_configured()) return is_filled(dataset);
    if (!fills_recognised_ || (share_.count == 1 && fill_.walks_all())) return false;
    const DatasetClass now = dataset.policy.current();
    return now == DatasetClass::epoch || now == DatasetClass::automatic;
}

bool TieredStore::fills_are_full() const {
    for (std::size_t number = 0; number < datasets_.count(); ++number) {
        const Dataset& dataset = datasets_.at(number);
        if (fill_brings(dataset) && dataset.fill_refused < kRefusals) return false;
    }
    return true;
}

std::uint64_t TieredStore::most_fill_memory() const {
    return std::min(prefetch_budget_ / 4, kMostUnderWay);
}

bool TieredStore::fill_may_send(std::uint64_t size) const {
    const std::uint64_t bytes = counters_.fill_under_way.load();
    return bytes == 0 || (bytes + size <= most_fill_memory() && counters_.fill_requests.load() < most_ahead_);
}

DatasetFill::Offered TieredStore::fill_object(const std::shared_ptr<const ObjectRef>& object) {
    Dataset& dataset = datasets_.of(*object);
    const bool all = fill_.walks_all();
    if (!fill_brings(dataset) || (all && dataset.fill_refused >= kRefusals))
        return DatasetFill::Offered::passed;
    if (nvme_ != nullptr) nvme_->claim(object->content, dataset.number);
    fill_left_over();
    const auto together = fill_with_others(object, dataset, layout_of(object->size));
    const auto offered = together ? *together : fill_singly(object);
    const bool full = offered == DatasetFill::Offered::full;
    if (!full) dataset.fill_offered.fetch_add(object->size, std::memory_order_relaxed);
    dataset.fill_refused = full ? dataset.fill_refused + 1 : 0;
    // There may be room for the files of another dataset, whose share is not used up.
    return full && all && !fill_.stopping() && !fills_are_full() ? DatasetFill::Offered::passed : offered;
}

DatasetFill::Offered TieredStore::fill_singly(const std::shared_ptr<const ObjectRef>& object) {
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

ArenaBufferPtr TieredStore::fill_memory(std::uint64_t size, bool in_one_piece) {
    const std::uint64_t taken = Arena::rounded(size);
    // A part of the memory only, and none while readers wait for some.
    while (!fill_.stopping()) {
        const bool written = !in_one_piece || run_memory_->load() <= most_fill_memory();
        if (!admission_->busy() && written && fill_may_send(taken)) {
            // What lies scattered there does not become one piece so: those under way come back as they went.
            const bool waits = in_one_piece && counters_.fill_under_way.load() > 0;
            if (ArenaBufferPtr buffer = memory_for(size, !waits)) return buffer;
        }
        fill_.pause(kFillTick);
    }
    return nullptr;
}

bool TieredStore::wait_for_room(Dataset& dataset, const UnitLayout& layout, std::uint64_t size, bool guided) {
    // What is under way goes to what is left of the tier: near its end, wait for it.
    const auto fits_nvme = [&] { return nvme_takes(dataset, layout, size, counters_.fill_under_way.load()); };
    // Where NVMe is full RAM is for what readers ask for: a guess would go before its turn comes.
    const bool guesses = nvme_ != nullptr && !guided && !fill_.walks_all();
    const auto fits_ram = [&] {
        if (guesses) return false;
        const std::uint64_t bytes = Arena::rounded(size) + counters_.fill_under_way.load();
        return may_pin(dataset, bytes) && ram_.make_kept_room(bytes, dataset.number);
    };
    for (int tick = 0; !fits_nvme() && !fits_ram();) {
        if (tick == kTicksUntilFull || !fill_.pause(kFillTick)) return false;
        if (counters_.fill_under_way.load() == 0) ++tick;
    }
    return true;
}

DatasetFill::Offered TieredStore::fill_run(const std::shared_ptr<const ObjectRef>& object,
                                           const UnitLayout& layout, std::uint64_t unit, std::uint32_t first,
                                           std::uint32_t count, const std::shared_ptr<Warming>& warming) {
    const std::uint64_t size = layout.block_end(unit, first + count - 1) - layout.block_begin(unit, first);
    if (!wait_for_room(datasets_.of(*object), layout, size, warming != nullptr))
        return DatasetFill::Offered::full;
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
    flight->is_paced = !warming && !fill_.walks_all();
    if (flight->is_paced) {
        counters_.paced_requests.fetch_add(1);
        if (!is_gathered_) pace_.sent(first == 0 && unit == 0 ? 1 : 0, size);
    }
    gate_.add();
    counters_.fill_under_way.fetch_add(flight->buffer->capacity());
    counters_.fill_requests.fetch_add(1);
    send(flight, Priority::fill);
    return DatasetFill::Offered::taken;
}

}  // namespace tierfs
