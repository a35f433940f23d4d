#include "tiering/prefetch/read_places.hpp"

#include <algorithm>
#include <array>

namespace tierfs {

void ReadPlaces::add(std::uint64_t place) {
    if (recent_.size() < kMost) {
        recent_.push_back(place);
        return;
    }
    recent_[oldest_] = place;
    oldest_ = (oldest_ + 1) % kMost;
}

void ReadPlaces::clear() {
    recent_.clear();
    sorted_.clear();
    oldest_ = 0;
    every_ = 1;
    widest_ = 0;
}

void ReadPlaces::judge() {
    sorted_ = recent_;
    std::sort(sorted_.begin(), sorted_.end());
    sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
    every_ = 1;
    rest_ = 0;
    if (sorted_.size() < kLeast) {
        sorted_.clear();
        return;
    }
    judge_shards();
    judge_gaps();
}

/// The most frequent of the places modulo `shards`, and how many have it.
ReadPlaces::Agreement ReadPlaces::agreement(std::span<const std::uint64_t> places, std::uint64_t shards) {
    std::array<std::uint32_t, kMostShards> counts{};
    for (const std::uint64_t place : places) ++counts[place % shards];
    const auto* const most = std::max_element(counts.begin(), counts.begin() + shards);
    return {static_cast<std::uint64_t>(most - counts.begin()), *most};
}

void ReadPlaces::judge_shards() {
    // A few tell that all will not agree: of those that nine in ten do, three in four of these do, too, but
    // for a chance of 1 in 5,000. Counting all for each number would take milliseconds.
    constexpr std::size_t kSample = 48;
    std::vector<std::uint64_t> sample;
    const std::size_t step = std::max<std::size_t>(1, sorted_.size() / kSample);
    for (std::size_t i = 0; i < sorted_.size(); i += step) sample.push_back(sorted_[i]);
    // From the largest: who reads every eighth file reads every fourth, too.
    for (std::uint64_t shards = kMostShards; shards > 1; --shards) {
        if (agreement(sample, shards).count * 4 < sample.size() * 3) continue;
        const Agreement all = agreement(sorted_, shards);
        if (all.count * 100 < sorted_.size() * kAgree) continue;
        every_ = shards;
        rest_ = all.rest;
        std::erase_if(sorted_, [&](std::uint64_t place) { return place % shards != all.rest; });
        return;
    }
}

void ReadPlaces::judge_gaps() {
    std::vector<std::uint64_t> gaps;
    gaps.reserve(sorted_.size());
    for (std::size_t i = 1; i < sorted_.size(); ++i) gaps.push_back(sorted_[i] - sorted_[i - 1]);
    const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
    std::nth_element(gaps.begin(), middle, gaps.end());
    widest_ = *middle * kWideGap;
}

bool ReadPlaces::meant(std::uint64_t place) const {
    if (sorted_.empty() || place % every_ != rest_) return false;
    const auto above = std::lower_bound(sorted_.begin(), sorted_.end(), place);
    if (above == sorted_.end()) return false;
    if (*above == place) return true;
    return above != sorted_.begin() && *above - *std::prev(above) <= widest_;
}

}  // namespace tierfs
