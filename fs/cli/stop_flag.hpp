// Asks what runs to end in order.
#pragma once

#include <atomic>

namespace tierfs {

/// Thread-safe.
class StopFlag {
  public:
    void request() { requested_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool requested() const { return requested_.load(std::memory_order_relaxed); }

  private:
    std::atomic<bool> requested_ = false;
};

}  // namespace tierfs
