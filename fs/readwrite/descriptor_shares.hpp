// Shares of the users of a writable mount in the descriptors of its daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "config/base/mutex.hpp"

namespace tierfs {

/// A file that is open on the mount is one that the daemon has open, and the limit of the daemon's process is
/// everybody's: so nobody but root holds more than half of what the others leave. More is refused, and
/// the log says so once. Thread-safe.
class DescriptorShares {
    struct State {
        Mutex mutex;
        std::size_t taken TIERFS_GUARDED_BY(mutex) = 0;
        std::unordered_map<std::uint32_t, std::size_t> by_user TIERFS_GUARDED_BY(mutex);
        std::unordered_set<std::uint32_t> told TIERFS_GUARDED_BY(mutex);  ///< users that the log has named
    };

  public:
    /// `most`: descriptors that all together may hold.
    explicit DescriptorShares(std::size_t most) : most_(most), state_(std::make_shared<State>()) {}

    /// Gives back what was taken when it ends; may live longer than the shares.
    class Share {
      public:
        Share() = default;
        ~Share();
        Share(Share&& other) noexcept
            : state_(std::move(other.state_)), user_(other.user_), count_(other.count_) {}
        Share& operator=(Share&& other) noexcept {
            std::swap(state_, other.state_);
            std::swap(user_, other.user_);
            std::swap(count_, other.count_);
            return *this;
        }
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;

      private:
        friend class DescriptorShares;
        Share(std::shared_ptr<State> state, std::uint32_t user, std::size_t count)
            : state_(std::move(state)), user_(user), count_(count) {}
        std::shared_ptr<State> state_;
        std::uint32_t user_ = 0;
        std::size_t count_ = 0;
    };
    /// Nothing: it would be more than the user's share.
    std::optional<Share> take(std::uint32_t user, std::size_t count);

    /// Descriptors left to open files of a daemon that may have `limit`: some stay for nodes that are known,
    /// the tiers, locks, the control socket and metrics.
    static std::size_t for_files(std::size_t limit) { return limit - limit / 8 - limit / 4; }

  private:
    const std::size_t most_;
    const std::shared_ptr<State> state_;
};

}  // namespace tierfs
