// Places of large objects whose records are still to be written. Internal to tiering/nvme.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/origin/object.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

/// The device, by its place, of the objects that were put last: so many that the pieces of one come to lie
/// together. What is forgotten too early may come to lie on two devices, of which one is then read.
/// Thread-safe.
class RecentPlaces {
  public:
    std::optional<std::size_t> find(const ContentId& id) {
        MutexLock lock(mutex_);
        const Slot& slot = slots_[id.low % slots_.size()];
        if (slot.place == 0 || slot.id != id) return std::nullopt;
        return slot.place - 1;
    }
    void put(const ContentId& id, std::size_t place) {
        MutexLock lock(mutex_);
        slots_[id.low % slots_.size()] = Slot{id, static_cast<std::uint32_t>(place + 1)};
    }

  private:
    struct Slot {
        ContentId id;
        std::uint32_t place = 0;  ///< counted from 1; 0: empty
    };
    Mutex mutex_;
    std::array<Slot, 1024> slots_ TIERFS_GUARDED_BY(mutex_){};
};

}  // namespace tierfs
