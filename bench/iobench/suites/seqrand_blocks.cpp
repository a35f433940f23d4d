#include "bench/iobench/suites/seqrand_blocks.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "bench/iobench/data/random.hpp"

namespace tierfs::iobench {

namespace {

std::vector<std::uint64_t> ends_of(const std::vector<ReadFile>& files, std::uint64_t block) {
    std::vector<std::uint64_t> ends;
    std::uint64_t sum = 0;
    for (const auto& file : files) ends.push_back(sum += (file.size + block - 1) / block);
    return ends;
}

/// `index` of `parts` equal parts of `count`, without overflow.
std::uint64_t part(std::uint64_t count, std::uint64_t index, std::uint64_t parts) {
    return count / parts * index + count % parts * index / parts;
}

}  // namespace

Permutation::Permutation(std::uint64_t count, std::uint64_t seed) : count_(count), seed_(seed) {
    half_ = static_cast<unsigned>(std::bit_width(count > 1 ? count - 1 : 1) + 1) / 2;
    mask_ = (std::uint64_t{1} << half_) - 1;
}

std::uint64_t Permutation::at(std::uint64_t index) const {
    std::uint64_t value = index;
    do {
        std::uint64_t left = value >> half_, right = value & mask_;
        for (std::uint64_t round = 0; round < 4; ++round) {
            const std::uint64_t mixed = mix(seed_ + (right + 1) * 0x9e3779b97f4a7c15ULL + (round << 60));
            left = std::exchange(right, (left ^ mixed) & mask_);
        }
        value = left << half_ | right;
    } while (value >= count_);
    return value;
}

Feed::Feed(const std::vector<ReadFile>& files, const ReadCase& one, unsigned index, std::uint64_t seed,
           const Limits& limits)
    : files_(files),
      block_(one.block),
      limits_(limits),
      random_(one.order == Order::random),
      ends_(ends_of(files, one.block)),
      permutation_(ends_.back(), seed),
      begin_(part(ends_.back(), index, one.threads)),
      end_(part(ends_.back(), index + 1, one.threads)),
      next_(begin_) {}

void Feed::start(std::uint64_t now) {
    deadline_ = now + static_cast<std::uint64_t>(limits_.seconds * 1e9);
}

std::optional<Block> Feed::next(std::uint64_t now) {
    if (now >= deadline_ || begin_ == end_ || (limits_.bytes != 0 && bytes_ >= limits_.bytes)) return {};
    if (next_ == end_) {
        if (!limits_.again) return {};
        next_ = begin_;
    }
    const Block found = block(random_ ? permutation_.at(next_) : next_);
    ++next_;
    bytes_ += found.length;
    return found;
}

Block Feed::block(std::uint64_t number) const {
    const auto file = static_cast<std::size_t>(
        files_.size() == 1 ? 0 : std::upper_bound(ends_.begin(), ends_.end(), number) - ends_.begin());
    const std::uint64_t offset = (number - (file == 0 ? 0 : ends_[file - 1])) * block_;
    return {file, offset, std::min(block_, files_[file].size - offset)};
}

}  // namespace tierfs::iobench
