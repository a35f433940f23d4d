#include "tiering/policy/pattern.hpp"

#include <algorithm>
#include <iterator>

namespace tierfs {
namespace {

/// Reads of one visit may come out of order, and between them those of other readers.
constexpr std::uint64_t kSameVisit = 16;
/// With fewer items, what comes back after kSameVisit visits has been away for long.
constexpr std::uint64_t kLeastItems = 128;

}  // namespace

bool PatternRecogniser::in_sample(const UnitKey& item, unsigned bits) {
    if (bits == 0) return true;
    return (std::hash<UnitKey>{}(item)*0x9E3779B97F4A7C15U) >> (64U - bits) == 0;
}

bool PatternRecogniser::observe(const PatternRead& read) {
    if (!in_sample(read.item, bits_.load(std::memory_order_relaxed))) return false;
    MutexLock lock(mutex_);
    if (!in_sample(read.item, bits_.load(std::memory_order_relaxed))) return false;
    const auto found = items_.find(read.item);
    if (found != items_.end()) {
        Item& item = found->second;
        const bool again = (item.read & read.blocks) != 0 && read.begin != item.end;
        item.end = read.end;
        if (!again || visits_ - item.visit < kSameVisit) {
            item.read |= read.blocks;
            return false;
        }
        ++current_.repeats;
        const std::uint64_t items = items_.size();
        if (items >= kLeastItems && (visits_ - item.visit) * 4 < items) ++current_.short_gaps;
        item.read = read.blocks;
        item.visit = ++visits_;
    } else {
        ++current_.fresh;
        items_.emplace(read.item, Item{read.blocks, read.end, ++visits_, read.item_bytes});
        bytes_ += read.item_bytes;
        if (items_.size() > kTracked) halve_sample();
    }
    visited(read);
    if (current_.visits < (first_ ? kFirstWindow : kWindow)) return false;
    first_ = false;
    forget_old();
    const unsigned bits = bits_.load(std::memory_order_relaxed);
    current_.items = std::uint64_t{items_.size()} << bits;
    current_.bytes = bytes_ << bits;
    current_.sample = items_.size();
    last_ = current_;
    current_ = {};
    return true;
}

void PatternRecogniser::visited(const PatternRead& read) {
    ++current_.visits;
    if (read.sequential) ++current_.sequential;
    Place& place = places_[visits_ % kBehind];
    if (!place.path.empty()) {
        ++current_.compared;
        const int order = read.path.compare(place.path);
        if (order > 0 || (order == 0 && read.item.unit > place.unit)) ++current_.ordered;
    }
    place.path.assign(read.path);
    place.unit = read.item.unit;
}

/// Visits are those of the sample: where it is half as large, half as many lie between two of an item.
void PatternRecogniser::halve_sample() {
    const unsigned bits = bits_.load(std::memory_order_relaxed) + 1;
    bits_.store(bits, std::memory_order_relaxed);
    for (auto at = items_.begin(); at != items_.end();) {
        if (!in_sample(at->first, bits)) {
            bytes_ -= at->second.bytes;
            at = items_.erase(at);
            continue;
        }
        at->second.visit = visits_ - (visits_ - at->second.visit) / 2;
        ++at;
    }
}

/// In an epoch every item comes back within twice as many visits as there are items.
void PatternRecogniser::forget_old() {
    const std::uint64_t longest = 4 * std::max<std::uint64_t>(items_.size(), kWindow);
    for (auto at = items_.begin(); at != items_.end();) {
        if (visits_ - at->second.visit <= longest) {
            ++at;
            continue;
        }
        bytes_ -= at->second.bytes;
        at = items_.erase(at);
    }
}

PatternEvidence PatternRecogniser::window() const {
    MutexLock lock(mutex_);
    return last_;
}

Pattern PatternRecogniser::judge(const PatternEvidence& evidence) {
    if (evidence.repeats * 10 >= evidence.visits)
        return evidence.short_gaps * 100 >= evidence.repeats * 38 ? Pattern::hot : Pattern::epoch;
    if (evidence.sequential * 10 >= evidence.visits * 8) return Pattern::stream;
    if (evidence.compared > 0 && evidence.ordered * 4 >= evidence.compared * 3) return Pattern::once;
    return Pattern::epoch;
}

}  // namespace tierfs
