// Memory that the open directories of a bucket take together.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>

#include "config/base/mutex.hpp"

namespace tierfs::s3 {

/// Bytes, counted so that who takes some can see when all have more than there is; and pages that are under way at the
/// same time. Thread-safe.
class ListingMemory {
  public:
    /// A server sends pages of 4 MiB at most, and to take one apart takes as much again.
    static constexpr std::uint64_t kPage = 8 << 20;

    /// `limit`: bytes of the process (memory.limit), of which this is a part.
    explicit ListingMemory(std::uint64_t limit)
        : most_(limit / kShare), pages_(std::max<std::uint64_t>(2, limit / kPage)) {}
    [[nodiscard]] bool is_over() const { return taken_.load(std::memory_order_relaxed) > most_; }

    /// What one of them has taken, given back with it. For one thread at a time; must not outlive the other.
    class Share {
      public:
        explicit Share(ListingMemory& all) : all_(all) {}
        ~Share() { clear(); }
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        void take(std::uint64_t bytes) {
            own_ += bytes;
            all_.taken_.fetch_add(bytes, std::memory_order_relaxed);
        }
        void give_back(std::uint64_t bytes) {
            own_ -= bytes;
            all_.taken_.fetch_sub(bytes, std::memory_order_relaxed);
        }
        void clear() { give_back(own_); }
        [[nodiscard]] bool is_over() const { return all_.is_over(); }

      private:
        ListingMemory& all_;
        std::uint64_t own_ = 0;
    };

    /// The right to ask for a page, waited for until `deadline`.
    class Page {
      public:
        Page(ListingMemory& all, std::chrono::steady_clock::time_point deadline) : all_(all) {
            MutexLock lock(all_.mutex_);
            while (all_.pages_ == 0 && lock.wait_until(all_.given_, deadline) != std::cv_status::timeout) {
            }
            has_ = all_.pages_ != 0;
            if (has_) --all_.pages_;
        }
        ~Page() {
            if (!has_) return;
            const MutexLock lock(all_.mutex_);
            ++all_.pages_;
            all_.given_.notify_one();
        }
        Page(const Page&) = delete;
        Page& operator=(const Page&) = delete;
        explicit operator bool() const { return has_; }

      private:
        ListingMemory& all_;
        bool has_ = false;
    };

  private:
    static constexpr std::uint64_t kShare = 16;
    const std::uint64_t most_;
    std::atomic<std::uint64_t> taken_{0};
    Mutex mutex_;
    std::condition_variable given_;
    std::uint64_t pages_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs::s3
