// Counters that many threads write at once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tierfs {

/// Copies of T, each in cache lines of its own, of which a thread always uses the same one (threads beyond
/// kStripes share). A counter that all threads write would go from one processor's cache to the next with
/// each write. Who wants the sum adds the copies up. T's members must be thread-safe.
template <typename T>
class Striped {
  public:
    static constexpr std::size_t kStripes = 16;

    [[nodiscard]] T& mine() { return stripes_[stripe_of_thread()].value; }

    /// The sum of `read(copy)` over all copies: of moments in no order, so a bit off while others write.
    template <typename Read>
    [[nodiscard]] std::uint64_t sum(const Read& read) const {
        std::uint64_t total = 0;
        for (const Stripe& stripe : stripes_) total += read(stripe.value);
        return total;
    }

  private:
    static constexpr std::size_t kCacheLine = 64;
    struct alignas(kCacheLine) Stripe {
        T value;
    };

    static std::size_t stripe_of_thread() {
        static std::atomic<std::size_t> threads{0};
        thread_local const std::size_t own = threads.fetch_add(1, std::memory_order_relaxed) % kStripes;
        return own;
    }

    std::array<Stripe, kStripes> stripes_;
};

/// A number that only grows. Thread-safe.
class StripedCounter {
  public:
    void add(std::uint64_t value) { copies_.mine().fetch_add(value, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t get() const {
        return copies_.sum([](const auto& copy) { return copy.load(std::memory_order_relaxed); });
    }

  private:
    Striped<std::atomic<std::uint64_t>> copies_;
};

}  // namespace tierfs
