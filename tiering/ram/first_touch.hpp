// A thread of low rank that makes memory resident before anybody waits for it. Internal to tiering/ram.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <thread>

#include "config/base/mutex.hpp"

namespace tierfs {

/// Makes these pages resident, zeroed, in huge pages where the system has them. Nobody else uses them meanwhile. Says
/// how long that takes without what the thread waited for a processor, about.
std::chrono::nanoseconds make_resident(std::span<std::byte> memory);

/// Calls `grow` until that says false, each time it is woken. Its thread has a tenth of a processor that others
/// want. On a virtual machine the first touch of memory is a fault of the host, too, and may cost more than to fetch
/// what is to stand there: where it is so dear, nine tenths of the time are pauses. Thread-safe.
class FirstTouch {
  public:
    static constexpr std::size_t kStep = std::size_t{8} << 20;

    /// Makes kStep bytes more resident, about, and says how long that takes; nothing: there is enough, or no more to
    /// be had.
    using Grow = std::function<std::optional<std::chrono::nanoseconds>()>;

    /// Without a thread, where the system gives none, nothing is grown.
    explicit FirstTouch(Grow grow);
    /// Waits for the call of `grow` that is under way.
    ~FirstTouch();
    FirstTouch(const FirstTouch&) = delete;
    FirstTouch& operator=(const FirstTouch&) = delete;

    /// Costs nothing while it is awake.
    void wake();
    /// Whether the last call of `grow` took long.
    [[nodiscard]] bool is_dear() const { return is_dear_.load(std::memory_order_relaxed); }

  private:
    using Clock = std::chrono::steady_clock;
    void run();

    const Grow grow_;
    Mutex mutex_;
    std::condition_variable changed_;
    std::atomic<bool> is_awake_{false}, is_over_{false};  ///< set under the lock
    std::atomic<bool> is_dear_{false};
    std::thread thread_;  ///< the last: it uses the others
};

}  // namespace tierfs
