#include "tiering/fetch/recent_failures.hpp"

#include <algorithm>

namespace tierfs {

void RecentFailures::add(const UnitKey& key, BlockMask blocks, const Error& error, Clock::time_point now) {
    while (!failures_.empty() && (failures_.front().until <= now || failures_.size() >= kMost))
        failures_.pop_front();
    failures_.push_back({key, blocks, error, now + kMoment});
}

std::optional<Error> RecentFailures::find(const UnitKey& key, BlockMask blocks, Clock::time_point now) const {
    const auto found = std::find_if(failures_.begin(), failures_.end(), [&](const Failure& failure) {
        return failure.key == key && (failure.blocks & blocks) != 0 && now < failure.until;
    });
    if (found == failures_.end()) return std::nullopt;
    return found->error;
}

}  // namespace tierfs
