// Pages of listings, kept for a while for those who walk the same directories one after the other.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <string>

#include "backends/origin/origin.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

/// What prefetching and the fill list of an origin: of the pages that came last kMost bytes are kept, for
/// `max_age`. Not for who wants to know what is there now. `origin` must outlive it. Thread-safe; whoever
/// misses lists for itself.
class RecentListings {
  public:
    using Clock = std::chrono::steady_clock;
    /// Some 20,000 names.
    static constexpr std::size_t kMost = std::size_t{4} << 20;

    RecentListings(Origin& origin, std::chrono::milliseconds max_age) : origin_(origin), max_age_(max_age) {}

    /// As Origin::list. Blocks for the origin.
    Result<ListPage> list(const std::string& path, const std::string& token) TIERFS_EXCLUDES(mutex_);

    /// About the page's memory, in bytes.
    static std::size_t size_of(const ListPage& page);

    [[nodiscard]] Origin& origin() const { return origin_; }

  private:
    struct Kept {
        std::string path, token;
        ListPage page;
        std::size_t bytes = 0;
        Clock::time_point came;
    };

    void keep(Kept kept) TIERFS_REQUIRES(mutex_);

    Origin& origin_;
    const std::chrono::milliseconds max_age_;
    Mutex mutex_;
    std::list<Kept> kept_ TIERFS_GUARDED_BY(mutex_);  ///< the latest first
    std::size_t bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs
