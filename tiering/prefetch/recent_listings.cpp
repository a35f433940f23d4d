#include "tiering/prefetch/recent_listings.hpp"

#include <utility>

namespace tierfs {

Result<ListPage> RecentListings::list(const std::string& path, const std::string& token) {
    {
        const auto now = Clock::now();
        MutexLock lock(mutex_);
        for (const Kept& kept : kept_) {
            // Whole milliseconds: max_age may be the longest there is.
            if (std::chrono::floor<std::chrono::milliseconds>(now - kept.came) > max_age_) break;
            if (kept.path == path && kept.token == token) return kept.page;
        }
    }
    const auto asked = Clock::now();
    auto page = origin_.list(path, token);
    if (page) {
        const std::size_t bytes = size_of(*page) + path.size() + token.size();
        MutexLock lock(mutex_);
        keep({path, token, *page, bytes, asked});
    }
    return page;
}

void RecentListings::keep(Kept kept) {
    if (kept.bytes > kMost) return;
    for (auto next = kept_.begin(); next != kept_.end();) {
        const auto old = next++;
        if (old->path != kept.path || old->token != kept.token) continue;
        bytes_ -= old->bytes;
        kept_.erase(old);
    }
    bytes_ += kept.bytes;
    kept_.push_front(std::move(kept));
    while (bytes_ > kMost) {
        bytes_ -= kept_.back().bytes;
        kept_.pop_back();
    }
}

std::size_t RecentListings::size_of(const ListPage& page) {
    constexpr std::size_t kHidden = 128;  // a node of the map with its reason
    std::size_t bytes = sizeof(Kept) + page.next.size() + page.hidden.size() * kHidden;
    for (const DirectoryEntry& entry : page.entries)
        bytes += sizeof(entry) + entry.name.size() + entry.attributes.version.size();
    return bytes;
}

}  // namespace tierfs
