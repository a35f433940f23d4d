#include "backends/nfs/handle_cache.hpp"

namespace tierfs::nfs {
namespace {

/// A node of the table, its place in the array, and what malloc adds to the two texts.
constexpr std::size_t kOverhead = 144;

}  // namespace

void HandleCache::insert(const std::string& path, Known known) {
    const auto bytes = kOverhead + path.size() + known.handle.size();
    if (young_bytes_ + bytes > most_ / 2) {
        old_ = std::move(young_);
        old_bytes_ = young_bytes_;
        young_ = {};
        young_bytes_ = 0;
    }
    if (young_.insert_or_assign(path, std::move(known)).second) young_bytes_ += bytes;
}

void HandleCache::put(const std::string& path, const Handle& handle, Clock::time_point now) {
    const MutexLock lock(mutex_);
    insert(path, Known{handle, now});
}

std::optional<HandleCache::Known> HandleCache::find(const std::string& path) {
    const MutexLock lock(mutex_);
    if (const auto found = young_.find(path); found != young_.end()) return found->second;
    const auto found = old_.find(path);
    if (found == old_.end()) return std::nullopt;
    Known known = found->second;
    insert(path, known);
    return known;
}

void HandleCache::drop(const std::string& path) {
    const MutexLock lock(mutex_);
    young_.erase(path);
    old_.erase(path);
}

std::size_t HandleCache::bytes() const {
    const MutexLock lock(mutex_);
    return young_bytes_ + old_bytes_;
}

}  // namespace tierfs::nfs
