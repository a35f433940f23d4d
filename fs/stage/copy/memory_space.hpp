// The memory of one worker: where reads of the source go to and writes come from.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "config/base/aligned_buffer.hpp"

namespace tierfs::stage {

/// Slabs on 2 MiB pages where the kernel has them, each cut into runs of whole 4 KiB pages, first fit. A slab
/// is made when no run is long enough in those there are: memory that is registered with the kernel is
/// touched whole, which costs a small stage more than its copies. Not thread-safe. There are at most a few
/// hundred runs at a time, so that a map of the free ones is quick.
class MemorySpace {
  public:
    /// The longest run; a slab is as long.
    static constexpr std::size_t kSlabBytes = std::size_t{4} << 20;

    /// At most `most` bytes, rounded up to slabs. `grown` hears of each slab before a run of it is given out.
    explicit MemorySpace(std::size_t most, std::function<void(std::span<std::byte>)> grown = {})
        : most_((most + kSlabBytes - 1) / kSlabBytes), grown_(std::move(grown)) {}

    [[nodiscard]] std::size_t most_slabs() const { return most_; }
    [[nodiscard]] std::size_t slabs() const { return slabs_.size(); }

    /// `bytes`, at most kSlabBytes, rounded up to pages; empty: no run is long enough now.
    std::span<std::byte> take(std::size_t bytes) {
        const auto wanted = static_cast<std::size_t>(align_up(bytes));
        for (auto& slab : slabs_)
            if (const auto run = slab.take(wanted); !run.empty()) return run;
        if (slabs_.size() >= most_ || wanted > kSlabBytes) return {};
        slabs_.emplace_back();
        if (grown_) grown_({slabs_.back().memory.get(), kSlabBytes});
        return slabs_.back().take(wanted);
    }

    /// What take() returned.
    void give_back(std::span<std::byte> run) {
        for (auto& slab : slabs_)
            if (run.data() >= slab.memory.get() && run.data() < slab.memory.get() + kSlabBytes)
                return slab.give_back(run);
    }

    [[nodiscard]] bool is_all_free() const {
        for (const auto& slab : slabs_)
            if (slab.free.size() != 1 || slab.free.begin()->second != kSlabBytes) return false;
        return true;
    }

  private:
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    struct Slab {
        Slab() {
            constexpr std::size_t kHuge = std::size_t{2} << 20;
            memory.reset(static_cast<std::byte*>(std::aligned_alloc(kHuge, kSlabBytes)));
            if (!memory) throw std::bad_alloc();
            static_cast<void>(::madvise(memory.get(), kSlabBytes, MADV_HUGEPAGE));
        }

        std::span<std::byte> take(std::size_t wanted) {
            for (auto run = free.begin(); run != free.end(); ++run) {
                const auto [offset, length] = *run;
                if (length < wanted) continue;
                free.erase(run);
                if (length > wanted) free[offset + wanted] = length - wanted;
                return {memory.get() + offset, wanted};
            }
            return {};
        }

        void give_back(std::span<std::byte> run) {
            const auto offset = static_cast<std::size_t>(run.data() - memory.get());
            std::size_t length = run.size();
            auto next = free.lower_bound(offset);
            if (next != free.end() && next->first == offset + length) {
                length += next->second;
                next = free.erase(next);
            }
            if (next != free.begin()) {
                const auto before = std::prev(next);
                if (before->first + before->second == offset) {
                    before->second += length;
                    return;
                }
            }
            free[offset] = length;
        }

        std::unique_ptr<std::byte, Free> memory;
        std::map<std::size_t, std::size_t> free{{0, kSlabBytes}};  ///< offset -> length
    };

    const std::size_t most_;
    const std::function<void(std::span<std::byte>)> grown_;
    std::vector<Slab> slabs_;
};

}  // namespace tierfs::stage
