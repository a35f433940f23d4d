#include "tiering/policy/repeats.hpp"

namespace tierfs {

bool Repeats::read(const UnitKey& key, Clock::time_point now) {
    if (reads_ <= 1) return true;
    MutexLock lock(mutex_);
    const auto found = places_.find(key);
    if (found != places_.end()) {
        entries_.splice(entries_.begin(), entries_, found->second);
    } else {
        entries_.push_front(Entry{key, {}, 0});
        places_.emplace(key, entries_.begin());
        if (entries_.size() > kMost) {
            places_.erase(entries_.back().key);
            entries_.pop_back();
        }
    }
    Entry& entry = entries_.front();
    const Clock::time_point oldest = entry.times[(entry.count + 1) % reads_];
    entry.times[entry.count % reads_] = now;
    ++entry.count;
    // In the coarser unit: kForever is too long for the finer one.
    return entry.count >= reads_ && std::chrono::floor<std::chrono::milliseconds>(now - oldest) <= within_;
}

}  // namespace tierfs
