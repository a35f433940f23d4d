#include "backends/s3/readwrite/inode_numbers.hpp"

#include <xxhash.h>

namespace tierfs::s3 {

namespace {

constexpr std::uint64_t kSmallest = 16;  // below: the root, and what readers of inode numbers treat apart

}  // namespace

Place place_of(std::uint64_t directory, std::string_view name) {
    const auto hash = XXH3_64bits_withSeed(name.data(), name.size(), directory);
    return hash < kSmallest ? hash + kSmallest : hash;
}

std::uint64_t InodeNumbers::number(Place place) {
    const MutexLock lock(mutex_);
    return number_locked(place);
}

std::uint64_t InodeNumbers::number_locked(Place place) {
    const auto moved = moved_.find(place);
    if (moved != moved_.end()) return moved->second;
    if (!taken_.contains(place)) return place;
    // What had this number is elsewhere now, and keeps it.
    std::uint64_t number = place;
    while (number == place || number < kSmallest || taken_.contains(number))
        number = XXH3_64bits_withSeed(&place, sizeof(place), ++next_);
    set(place, number);
    return number;
}

void InodeNumbers::set(Place place, std::uint64_t number) {
    if (moved_.size() >= kMost) {
        moved_.clear();
        taken_.clear();
    }
    moved_[place] = number;
    taken_.insert(number);
}

void InodeNumbers::forget(Place place) {
    const auto moved = moved_.find(place);
    if (moved == moved_.end()) return;
    taken_.erase(moved->second);
    moved_.erase(moved);
}

void InodeNumbers::renamed(Place from, Place to) {
    const MutexLock lock(mutex_);
    const auto number = number_locked(from);
    forget(from);
    forget(to);
    if (number != to) set(to, number);
}

bool InodeNumbers::is_nearly_full() {
    constexpr std::size_t kNearly = 64;
    const MutexLock lock(mutex_);
    return moved_.size() + kNearly >= kMost;
}

void InodeNumbers::exchanged(Place one, Place other) {
    const MutexLock lock(mutex_);
    const auto first = number_locked(one), second = number_locked(other);
    forget(one);
    forget(other);
    if (second != one) set(one, second);
    if (first != other) set(other, first);
}

void InodeNumbers::removed(Place place) {
    const MutexLock lock(mutex_);
    forget(place);
}

void InodeNumbers::keep(std::uint64_t number) {
    const MutexLock lock(mutex_);
    taken_.insert(number);
}

void InodeNumbers::give_back(std::uint64_t number) {
    const MutexLock lock(mutex_);
    taken_.erase(number);
}

}  // namespace tierfs::s3
