#include "tiering/policy/read_counts.hpp"

namespace tierfs {

void ReadCounts::began(const ContentId& id, Clock::time_point now) {
    MutexLock lock(mutex_);
    const auto found = places_.find(id);
    if (found != places_.end()) {
        Entry& entry = *found->second;
        ++entry.reads;
        entry.idle = now - entry.last;
        entry.last = now;
        entries_.splice(entries_.begin(), entries_, found->second);
        return;
    }
    entries_.push_front(Entry{id, 1, now - start_, now});
    places_.emplace(id, entries_.begin());
    if (entries_.size() <= kMost) return;
    places_.erase(entries_.back().id);
    entries_.pop_back();
}

ReadCounts::Uses ReadCounts::uses(const ContentId& id, Clock::time_point now) const {
    MutexLock lock(mutex_);
    const auto found = places_.find(id);
    if (found == places_.end()) return {0, now - start_};
    return {found->second->reads, found->second->idle};
}

}  // namespace tierfs
