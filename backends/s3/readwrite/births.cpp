#include "backends/s3/readwrite/births.hpp"

#include <xxhash.h>

namespace tierfs::s3 {

namespace {

constexpr std::uint64_t kSeed = 0x6269727468;

std::uint64_t hash_of(std::string_view version) {
    const auto hash = XXH3_64bits_withSeed(version.data(), version.size(), kSeed);
    return hash != 0 ? hash : 1;
}

}  // namespace

std::uint64_t Births::next_locked() {
    ++made_;
    return XXH3_64bits_withSeed(&made_, sizeof(made_), ~kSeed);
}

Births::Entry& Births::entry_locked(Place place) {
    if (entries_.size() >= kMost && !entries_.contains(place)) entries_.clear();
    return entries_[place];
}

std::uint64_t Births::at(Place place, std::string_view version) {
    const auto hash = hash_of(version);
    const MutexLock lock(mutex_);
    const auto found = entries_.find(place);
    if (found == entries_.end()) return hash;
    auto& entry = found->second;
    if (entry.version != hash) entry = {hash, next_locked()};
    return entry.birth;
}

std::uint64_t Births::made() {
    const MutexLock lock(mutex_);
    return next_locked();
}

void Births::changed(Place place, std::string_view version, std::uint64_t birth) {
    const auto hash = hash_of(version);
    const MutexLock lock(mutex_);
    entry_locked(place) = {hash, birth};
}

void Births::left(Place place) {
    const MutexLock lock(mutex_);
    entry_locked(place).version = 0;
}

}  // namespace tierfs::s3
