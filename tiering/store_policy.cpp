// What the class of the dataset means for the tiers.
#include <algorithm>

#include "tiering/store_impl.hpp"

namespace tierfs {

void TieredStore::start_policy() {
    if (nvme_ != nullptr) nvme_->keep(policy_.current() != DatasetClass::hot);
    // Only who says that it is an epoch means all of it: what is recognised may be a part of the files.
    if (!policy_.is_configured() || policy_.current() != DatasetClass::epoch) return;
    gate_.add();
    fill_.start([this] { gate_.leave(); });
}

void TieredStore::watch(const ObjectRef& object, const UnitLayout& layout, std::uint64_t begin,
                        std::uint64_t end, bool sequential) {
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
        complete = policy_.observe(read) || complete;
    }
    if (!complete) return;
    DatasetPolicy::Traffic traffic;
    traffic.read = counters_.bytes.load(std::memory_order_relaxed);
    traffic.from_origin = counters_.origin.load(std::memory_order_relaxed);
    traffic.resident = ram_.stats().kept_bytes + (nvme_ != nullptr ? nvme_->stats().used_bytes : 0);
    traffic.full = frozen_;
    apply(policy_.decide(traffic, DatasetPolicy::Clock::now()));
}

void TieredStore::apply(const DatasetPolicy::Step& step) {
    const bool hot = policy_.current() == DatasetClass::hot;
    if (step.changed && nvme_ != nullptr) nvme_->keep(!hot);
    if (step.renew && nvme_ != nullptr) nvme_->renew();
    // A stream that passes by takes nothing from an epoch: what is kept stays then.
    if (step.renew || (step.changed && hot)) ram_.release_kept();
    if (step.renew || step.changed) frozen_ = false;
}

bool TieredStore::nvme_takes(const UnitLayout& layout, std::uint64_t length) const {
    if (nvme_ == nullptr || gate_.closed()) return false;
    // The tier takes small objects whole; where memory was too small for that, they stay out.
    if (!layout.whole && layout.size <= pack_max_object_) return false;
    if (layout.whole && length != layout.size) return false;
    const DatasetClass now = policy_.current();
    if (policy_.is_configured() && (now == DatasetClass::stream || now == DatasetClass::once)) return false;
    return nvme_->takes(layout.size, length);
}

TieredStore::Home TieredStore::choose_home(const Flight& flight) {
    if (nvme_takes(flight.layout, flight.buffer->bytes().size())) {
        frozen_ = false;
        return Home::nvme;
    }
    if (policy_.current() != DatasetClass::epoch) return Home::none;
    // RAM takes what NVMe does not, so that the two do not hold the same bytes.
    const bool fits = ram_.may_keep(flight.buffer->capacity());
    frozen_ = !fits;
    return fits ? Home::ram : Home::none;
}

DatasetStatus TieredStore::dataset_status() const {
    DatasetStatus status = policy_.status();
    status.frozen = frozen_;
    return status;
}

}  // namespace tierfs
