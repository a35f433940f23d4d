// Blocks that are worth the RAM tier's memory: those asked for twice within a short while.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "backends/origin/object.hpp"

namespace tierfs {

/// The latest blocks asked for, by fingerprint: one slot for each hash, the later of two with the same wins,
/// so that a block may be forgotten early but is rarely taken for another (2^-52). Lock-free; 32 KiB.
class SecondTouch {
  public:
    /// Notes the block. True: it was noted before and not forgotten since; it is forgotten now.
    bool touch(const ContentId& id, std::uint64_t block) {
        const std::uint64_t mark = (id.low ^ (block * 0x9E3779B97F4A7C15U)) | 1U;  // never 0, the empty slot
        auto& slot = slots_[(mark * 0xBF58476D1CE4E5B9U) >> (64U - kBits)];
        const bool known = slot.load(std::memory_order_relaxed) == mark;
        slot.store(known ? 0 : mark, std::memory_order_relaxed);
        return known;
    }

  private:
    static constexpr unsigned kBits = 12;
    std::array<std::atomic<std::uint64_t>, std::size_t{1} << kBits> slots_{};
};

}  // namespace tierfs
