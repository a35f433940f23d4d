// What the class of a dataset means for the tiers.
#include <algorithm>

#include "tiering/store/store_impl.hpp"

namespace tierfs {
namespace {

std::uint32_t seconds_of(std::chrono::steady_clock::time_point time) {
    return static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count());
}

}  // namespace

void TieredStore::start_policy() {
    for (std::size_t number = 0; number < datasets_.count(); ++number) retain(datasets_.at(number));
    if (pins_ != nullptr) {
        retain(datasets_.pinned());
        earlier_pins_ = pins_->generation() != 0;
        // Until the first round has found out what of it is pinned, none of it goes.
        if (earlier_pins_ && nvme_ != nullptr) nvme_->retain(kUnknownDataset, Retention::pinned);
    }
    const auto now = std::chrono::steady_clock::now();
    ram_.set_time(seconds_of(now));
    next_demotion_ = now;
    gate_.add();
    neighbours_.start([this] { gate_.leave(); });
    start_fill();
}

bool TieredStore::is_filled(const Dataset& dataset) {
    // Only who says that it is an epoch means all of it: what is recognised may be a part of the files.
    const DatasetClass now = dataset.policy.current();
    return dataset.policy.is_configured() && (now == DatasetClass::epoch || now == DatasetClass::pin);
}

void TieredStore::retain(const Dataset& dataset) {
    retain_as(dataset, dataset.retention());
}

void TieredStore::retain_as(const Dataset& dataset, Retention retention) {
    if (nvme_ != nullptr) nvme_->retain(dataset.number, retention);
    // Nobody but an epoch and what is pinned keeps anything in RAM for good.
    const bool keeps = retention == Retention::stays || retention == Retention::pinned;
    ram_.retain(dataset.number, keeps ? retention : Retention::passes);
}

void TieredStore::watch(Dataset& dataset, const ObjectRef& object, const UnitLayout& layout,
                        std::uint64_t begin, std::uint64_t end, bool sequential) {
    const std::uint64_t last = layout.unit_of(end - 1);
    bool complete = false;
    for (std::uint64_t unit = layout.unit_of(begin); unit <= last; ++unit) {
        PatternRead read;
        read.item = UnitKey{object.content, unit};
        read.path = object.path;
        read.blocks = layout.touched(unit, begin, end);
        read.begin = std::max(begin, layout.begin_of(unit));
        read.end = std::min(end, layout.end_of(unit));
        read.item_bytes = layout.end_of(unit) - layout.begin_of(unit);
        read.sequential = sequential;
        complete = dataset.policy.observe(read) || complete;
    }
    if (!complete) return;
    DatasetPolicy::Traffic traffic;
    traffic.read = dataset.read.get();
    traffic.from_origin = dataset.from_origin.get();
    traffic.resident = kept_bytes(dataset);
    traffic.full = dataset.frozen;
    apply(dataset, dataset.policy.decide(traffic, DatasetPolicy::Clock::now()));
}

void TieredStore::apply(Dataset& dataset, const DatasetPolicy::Step& step) {
    const bool hot = dataset.policy.current() == DatasetClass::hot;
    if (step.changed) retain(dataset);
    if (step.renew && nvme_ != nullptr) nvme_->renew(dataset.number);
    // A stream that passes by takes nothing from an epoch: what is kept stays then.
    if (step.renew || (step.changed && hot)) ram_.release_kept(dataset.number);
    if (step.renew || step.changed) dataset.frozen = false;
}

bool TieredStore::nvme_takes(const Dataset& dataset, const UnitLayout& layout, std::uint64_t length,
                             std::uint64_t coming) const {
    if (nvme_ == nullptr || gate_.closed()) return false;
    // The tier takes small objects whole; where memory was too small for that, they stay out.
    if (!layout.whole && layout.size <= pack_max_object_) return false;
    if (layout.whole && length != layout.size) return false;
    return !dataset.is_passing() && may_pin(dataset, length) &&
           nvme_->takes(layout.size, length, dataset.number, coming);
}

TieredStore::Home TieredStore::choose_home(Dataset& dataset, const Flight& flight) {
    if (nvme_takes(dataset, flight.layout, flight.buffer->bytes().size())) {
        dataset.frozen = false;
        dataset.refused = false;
        return Home::nvme;
    }
    const DatasetClass now = dataset.policy.current();
    if (now != DatasetClass::epoch && now != DatasetClass::pin) return Home::none;
    // RAM takes what NVMe does not, so that the two do not hold the same bytes.
    const std::uint64_t taken = flight.buffer->capacity();
    const bool fits = may_pin(dataset, taken) && ram_.make_kept_room(taken, dataset.number);
    dataset.frozen = !fits && now == DatasetClass::epoch;
    dataset.refused = !fits && now == DatasetClass::pin;
    return fits ? Home::ram : Home::none;
}

RamStay TieredStore::ram_stay(const Dataset& dataset, Home home) {
    if (dataset.policy.current() == DatasetClass::none) return RamStay::passes;
    return home == Home::ram ? RamStay::kept : RamStay::cached;
}

RamStay TieredStore::promoted_stay(const Dataset& dataset, const UnitLayout& layout, const UnitKey& key,
                                   std::uint32_t first_block) {
    const UnitKey piece{key.id, key.unit * layout.unit_blocks + first_block};
    return repeats_.read(piece, Repeats::Clock::now()) ? ram_stay(dataset, Home::nvme) : RamStay::passes;
}

void TieredStore::tick(std::chrono::steady_clock::time_point now) {
    if (demote_idle_ == kForever) return;
    using std::chrono::seconds;
    const std::uint32_t second = seconds_of(now);
    ram_.set_time(second);
    if (now < next_demotion_) return;
    const auto idle = std::chrono::duration_cast<seconds>(demote_idle_);
    next_demotion_ = now + std::clamp(idle / 16, seconds(1), seconds(60));
    if (ram_.demote(second, static_cast<std::uint32_t>(std::min<std::int64_t>(idle.count(), INT32_MAX))) == 0)
        return;
    arena_->return_free();
    admission_->memory_freed();
}

std::uint64_t TieredStore::kept_bytes(const Dataset& dataset) const {
    // Without rules all of it is the mount's own, also what an earlier run left.
    if (datasets_.count() == 1) {
        const std::uint64_t all =
            ram_.stats().kept_bytes + (nvme_ != nullptr ? nvme_->stats().used_bytes : 0);
        const std::uint64_t pinned =
            pins_ == nullptr ? 0 : pinned_bytes(datasets_.pinned()) + pinned_bytes(datasets_.pinned_before());
        return all - std::min(all, pinned);
    }
    return ram_.kept_by(dataset.number) + (nvme_ != nullptr ? nvme_->used_by(dataset.number) : 0);
}

DatasetStatus TieredStore::dataset_status(const Dataset& dataset) const {
    DatasetStatus status = dataset.policy.status();
    status.match = datasets_.match_of(dataset);
    status.codec = name_of(datasets_.codec_of(dataset));
    status.frozen = dataset.frozen;
    status.kept_bytes = kept_bytes(dataset);
    status.read_bytes = dataset.read.get();
    status.origin_bytes = dataset.from_origin.get();
    status.fill_offered_bytes = dataset.fill_offered.load(std::memory_order_relaxed);
    status.filled_bytes = dataset.filled.load(std::memory_order_relaxed);
    if (dataset.refused)
        status.reason += "; the tiers have no room for all of it: pin less, or raise nvme.limit";
    return status;
}

}  // namespace tierfs
