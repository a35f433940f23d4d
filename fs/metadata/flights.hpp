// Single-flight: who asks the same thing while it is asked waits for its answer. Internal to fs/metadata.
#pragma once

#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/base/mutex.hpp"

namespace tierfs {

/// Thread-safe. `Answer` is given to every waiter by const reference.
template <typename Key, typename Answer, typename Hash = std::hash<Key>>
class Flights {
  public:
    using Waiter = std::function<void(const Answer&)>;

    /// True: the caller is the first and has to get the answer, then to `land` it.
    bool board(const Key& key, Waiter waiter) {
        MutexLock lock(mutex_);
        auto& waiters = flights_[key];
        waiters.push_back(std::move(waiter));
        return waiters.size() == 1;
    }

    /// Answers all that wait; a question that comes from now on is a new one.
    void land(const Key& key, const Answer& answer) {
        std::vector<Waiter> waiters;
        {
            MutexLock lock(mutex_);
            const auto found = flights_.find(key);
            if (found == flights_.end()) return;
            waiters.swap(found->second);
            flights_.erase(found);
        }
        for (const Waiter& waiter : waiters) waiter(answer);
    }

  private:
    Mutex mutex_;
    std::unordered_map<Key, std::vector<Waiter>, Hash> flights_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs
