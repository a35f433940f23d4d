#include "tiering/policy/tier_shares.hpp"

#include <algorithm>

namespace tierfs {

std::uint64_t TierShares::share_beside(DatasetNumber dataset, DatasetNumber also) const {
    const Dataset& own = at(dataset);
    if (own.retention == Retention::pinned) return limit_;
    if (own.retention == Retention::passes || place(dataset) == kMostDatasets) return 0;
    std::uint64_t pinned = 0, sharers = 1;
    const std::size_t count = count_;
    for (std::size_t number = 0; number < count; ++number) {
        const Dataset& each = datasets_[number];
        if (each.retention == Retention::pinned) {
            pinned += each.used;
        } else if (&each != &own && each.retention != Retention::passes &&
                   (each.used > 0 || number == also || (each.asked && each.retention != Retention::waits))) {
            ++sharers;
        }
    }
    const std::uint64_t limit = limit_;
    return pinned >= limit ? 0 : (limit - pinned) / sharers;
}

bool TierShares::has_pinned() const {
    return std::any_of(datasets_.begin(), datasets_.end(), [](const Dataset& each) {
        return each.retention == Retention::pinned && each.used > 0;
    });
}

bool TierShares::may_displace(DatasetNumber taker, DatasetNumber owner, std::uint64_t bytes) const {
    const Retention wants = get(taker);
    if (taker == owner || get(owner) == Retention::pinned) return false;
    if (wants == Retention::pinned) return true;
    if (wants != Retention::goes && wants != Retention::stays) return false;
    // An epoch's own data may be among what nobody has claimed yet.
    if (place(owner) == kMostDatasets) return wants == Retention::goes;
    return used(taker) + bytes <= share(taker) && used(owner) > share_beside(owner, taker);
}

bool TierShares::may_displace_any(DatasetNumber taker, std::uint64_t bytes) const {
    const std::size_t count = count_;
    for (std::size_t number = 0; number <= count; ++number) {
        const auto owner = number == count ? kUnknownDataset : static_cast<DatasetNumber>(number);
        if (used(owner) > 0 && may_displace(taker, owner, bytes)) return true;
    }
    return false;
}

}  // namespace tierfs
