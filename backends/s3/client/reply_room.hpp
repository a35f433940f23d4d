// Turns of replies that may be long.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>

#include "backends/http/request.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::s3 {

/// Bounds how many listings are asked for or read at a time, so that the pages of all callers fit memory.limit, however
/// long a server makes them. Thread-safe.
class ReplyRoom {
  public:
    /// A page as text, beside what is made of it.
    static constexpr std::uint64_t kMemoryOfReply = 16U << 20U;
    static constexpr std::uint64_t kLeast = 2, kMost = 128;

    /// `memory`: memory.limit, bytes.
    explicit ReplyRoom(std::uint64_t memory)
        : shared_(std::make_shared<Shared>(std::clamp(memory / kMemoryOfReply, kLeast, kMost))) {}

    /// A turn, held until the last copy of it goes. Null: all turns were taken until `deadline`.
    std::shared_ptr<const void> take(http::Clock::time_point deadline) {
        MutexLock lock(shared_->mutex);
        while (shared_->free == 0) {
            if (deadline == http::Clock::time_point::max()) {
                lock.wait(shared_->given_back);
            } else if (lock.wait_until(shared_->given_back, deadline) == std::cv_status::timeout) {
                return nullptr;
            }
        }
        --shared_->free;
        return {shared_.get(), [shared = shared_](const void*) {
                    const MutexLock returned(shared->mutex);
                    ++shared->free;
                    shared->given_back.notify_one();
                }};
    }

  private:
    struct Shared {
        explicit Shared(std::uint64_t turns) : free(turns) {}
        Mutex mutex;
        std::condition_variable given_back;
        std::uint64_t free TIERFS_GUARDED_BY(mutex);
    };
    const std::shared_ptr<Shared> shared_;
};

}  // namespace tierfs::s3
