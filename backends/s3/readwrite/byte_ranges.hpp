// A set of byte ranges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace tierfs::s3 {

struct ByteRange {
    std::uint64_t begin = 0, end = 0;  ///< [begin, end)
    friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// Ranges that touch are one. Not thread-safe.
class ByteRanges {
  public:
    void add(std::uint64_t begin, std::uint64_t end) {
        if (begin >= end) return;
        auto next = ranges_.upper_bound(begin);
        if (next != ranges_.begin() && std::prev(next)->second >= begin) --next;
        while (next != ranges_.end() && next->first <= end) {
            begin = std::min(begin, next->first);
            end = std::max(end, next->second);
            next = ranges_.erase(next);
        }
        ranges_.emplace(begin, end);
    }

    void remove(std::uint64_t begin, std::uint64_t end) {
        if (begin >= end) return;
        auto at = ranges_.upper_bound(begin);
        if (at != ranges_.begin() && std::prev(at)->second > begin) --at;
        while (at != ranges_.end() && at->first < end) {
            const ByteRange old{at->first, at->second};
            at = ranges_.erase(at);
            if (old.begin < begin) ranges_.emplace(old.begin, begin);
            if (old.end > end) ranges_.emplace(end, old.end);
        }
    }

    /// What of [begin, end) is not in the set, in order.
    [[nodiscard]] std::vector<ByteRange> gaps(std::uint64_t begin, std::uint64_t end) const {
        std::vector<ByteRange> gaps;
        auto at = ranges_.upper_bound(begin);
        if (at != ranges_.begin() && std::prev(at)->second > begin) --at;
        for (; at != ranges_.end() && at->first < end; ++at) {
            if (at->first > begin) gaps.push_back({begin, at->first});
            begin = std::max(begin, at->second);
        }
        if (begin < end) gaps.push_back({begin, end});
        return gaps;
    }

    [[nodiscard]] bool covers(std::uint64_t begin, std::uint64_t end) const {
        return gaps(begin, end).empty();
    }
    [[nodiscard]] std::size_t count() const { return ranges_.size(); }

  private:
    std::map<std::uint64_t, std::uint64_t> ranges_;
};

}  // namespace tierfs::s3
