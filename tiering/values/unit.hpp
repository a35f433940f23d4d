// Units of objects in memory: blocks (64 KiB), units of blocks (the key of RAM and of fetches), and
// sets of blocks of one unit as bit masks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "backends/origin/object.hpp"

namespace tierfs {

/// A set of blocks of one unit; bit i is its block i.
using BlockMask = std::uint64_t;

inline constexpr std::uint32_t kStreamUnitBlocks = 64;  ///< 4 MiB of a large object
inline constexpr std::uint32_t kLargestUnitBlocks = 64;

/// One unit: a small object whole (unit 0), or 4 MiB of a large one.
struct UnitKey {
    ContentId id;
    std::uint64_t unit = 0;
    friend bool operator==(const UnitKey&, const UnitKey&) = default;
};

/// The `count` blocks from `first` on; count at least 1, first + count at most 64.
constexpr BlockMask block_range(std::uint32_t first, std::uint32_t count) {
    return (~BlockMask{0} >> (64 - count)) << first;
}

/// Calls f(first, count) for each run of set bits, lowest first, cut into runs of at most `longest`.
template <typename Function>
void for_each_run(BlockMask mask, std::uint32_t longest, Function&& f) {
    while (mask != 0) {
        const auto first = static_cast<std::uint32_t>(std::countr_zero(mask));
        const auto ones = static_cast<std::uint32_t>(std::countr_one(mask >> first));
        const std::uint32_t count = std::min(ones, longest);
        f(first, count);
        mask &= ~block_range(first, count);
    }
}

/// How one object is divided.
struct UnitLayout {
    std::uint64_t size = 0;         ///< of the object, bytes
    std::uint32_t unit_blocks = 0;  ///< kStreamUnitBlocks, or kLargestUnitBlocks for an object kept whole
    bool whole = false;             ///< fetched and admitted in one piece

    [[nodiscard]] std::uint64_t unit_bytes() const { return std::uint64_t{unit_blocks} * kBlockSize; }
    [[nodiscard]] std::uint64_t unit_of(std::uint64_t offset) const { return offset / unit_bytes(); }
    [[nodiscard]] std::uint64_t begin_of(std::uint64_t unit) const { return unit * unit_bytes(); }
    [[nodiscard]] std::uint64_t end_of(std::uint64_t unit) const {
        return std::min(size, begin_of(unit) + unit_bytes());
    }
    /// All blocks of a unit that the object has.
    [[nodiscard]] BlockMask blocks_of(std::uint64_t unit) const {
        return block_range(0, static_cast<std::uint32_t>(block_count(end_of(unit) - begin_of(unit))));
    }
    /// Blocks of `unit` that [begin, end) touches; the range must touch the unit.
    [[nodiscard]] BlockMask touched(std::uint64_t unit, std::uint64_t begin, std::uint64_t end) const {
        const std::uint64_t base = begin_of(unit);
        const std::uint64_t from = std::max(begin, base) - base;
        const std::uint64_t to = std::min(end, end_of(unit)) - base;
        const auto first = static_cast<std::uint32_t>(from / kBlockSize);
        return block_range(first, static_cast<std::uint32_t>(block_count(to)) - first);
    }
    [[nodiscard]] std::uint64_t block_begin(std::uint64_t unit, std::uint32_t block) const {
        return begin_of(unit) + std::uint64_t{block} * kBlockSize;
    }
    [[nodiscard]] std::uint64_t block_end(std::uint64_t unit, std::uint32_t block) const {
        return std::min(size, block_begin(unit, block) + kBlockSize);
    }
};

}  // namespace tierfs

template <>
struct std::hash<tierfs::UnitKey> {
    std::size_t operator()(const tierfs::UnitKey& key) const noexcept {
        const std::uint64_t mixed =
            (key.id.low ^ (key.id.high * 0x9E3779B97F4A7C15U)) + key.unit * 0xD6E8FEB86659FD93U;
        return mixed ^ (mixed >> 32U);
    }
};
