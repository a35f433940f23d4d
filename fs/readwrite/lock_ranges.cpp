#include "fs/readwrite/lock_ranges.hpp"

#include <algorithm>

namespace tierfs {

namespace {

/// Makes one range of it and the last, where they are one.
void append(std::vector<FileLock>& ranges, const FileLock& next) {
    if (!ranges.empty() && ranges.back().kind == next.kind && ranges.back().last + 1 == next.first) {
        ranges.back().last = next.last;
    } else {
        ranges.push_back(next);
    }
}

}  // namespace

void LockRanges::set(const FileLock& lock) {
    const FileLock wanted{lock.kind, lock.first, std::min(lock.last, FileLock::kEnd), 0};
    if (wanted.first > wanted.last) return;
    std::vector<FileLock> pieces;
    for (const auto& range : ranges_) {
        if (range.first < wanted.first)
            pieces.push_back({range.kind, range.first, std::min(range.last, wanted.first - 1), 0});
        if (range.last > wanted.last)
            pieces.push_back({range.kind, std::max(range.first, wanted.last + 1), range.last, 0});
    }
    if (wanted.kind != FileLock::Kind::none) pieces.push_back(wanted);
    std::sort(pieces.begin(), pieces.end(),
              [](const FileLock& one, const FileLock& other) { return one.first < other.first; });
    ranges_.clear();
    for (const auto& piece : pieces) append(ranges_, piece);
}

const FileLock* LockRanges::in_the_way(const FileLock& wanted) const {
    const auto found = std::find_if(ranges_.begin(), ranges_.end(),
                                    [&](const FileLock& range) { return range.excludes(wanted); });
    return found == ranges_.end() ? nullptr : &*found;
}

std::vector<FileLock> LockRanges::within(const FileLock& range) const {
    std::vector<FileLock> pieces;
    std::uint64_t at = range.first;
    for (const auto& one : ranges_) {
        if (one.last < at || one.first > range.last) continue;
        if (one.first > at) pieces.push_back({FileLock::Kind::none, at, one.first - 1, 0});
        pieces.push_back({one.kind, std::max(at, one.first), std::min(one.last, range.last), 0});
        at = pieces.back().last + 1;
    }
    if (at <= range.last) pieces.push_back({FileLock::Kind::none, at, range.last, 0});
    return pieces;
}

}  // namespace tierfs
