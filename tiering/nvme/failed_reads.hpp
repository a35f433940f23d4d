// Reads that failed last, to tell a bad sector from a bad moment. Internal to tiering/nvme.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "backends/origin/object.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

/// Remembers a few failed reads by object and offset, the latest of each slot. What fails twice without a
/// good read between is not worth a third try: each costs a device's time-out and brings the tier nearer to
/// being switched off. Thread-safe; while nothing fails, a good read costs one look at an atomic.
class FailedReads {
  public:
    /// True: the same read failed the last time too. It is forgotten then, as its data is to be.
    bool failed(const ContentId& id, std::uint64_t offset) {
        MutexLock lock(mutex_);
        Slot& slot = slot_of(id, offset);
        const bool again = slot.used && slot.id == id && slot.offset == offset;
        if (!slot.used) used_.fetch_add(1, std::memory_order_relaxed);
        if (again) used_.fetch_sub(1, std::memory_order_relaxed);
        slot = Slot{id, offset, !again};
        return again;
    }
    void succeeded(const ContentId& id, std::uint64_t offset) {
        if (used_.load(std::memory_order_relaxed) == 0) return;
        MutexLock lock(mutex_);
        Slot& slot = slot_of(id, offset);
        if (!slot.used || slot.id != id || slot.offset != offset) return;
        slot.used = false;
        used_.fetch_sub(1, std::memory_order_relaxed);
    }

  private:
    struct Slot {
        ContentId id;
        std::uint64_t offset = 0;
        bool used = false;
    };
    Slot& slot_of(const ContentId& id, std::uint64_t offset) TIERFS_REQUIRES(mutex_) {
        return slots_[(id.low ^ (offset / kBlockSize)) % slots_.size()];
    }

    std::atomic<unsigned> used_{0};
    Mutex mutex_;
    std::array<Slot, 64> slots_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs
