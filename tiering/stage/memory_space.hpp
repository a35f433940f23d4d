// The memory of one worker: where reads of the source go to and writes come from.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <span>

#include "backends/disk/aligned_buffer.hpp"

namespace tierfs::stage {

/// A piece of memory on 2 MiB pages where the kernel has them, cut into runs of whole 4 KiB pages, first fit.
/// Not thread-safe. There are at most a few hundred runs at a time, so that a map of the free ones is quick.
class MemorySpace {
  public:
    explicit MemorySpace(std::size_t bytes) : size_(bytes / kHuge * kHuge) {
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kHuge, size_)));
        if (!memory_) throw std::bad_alloc();
        static_cast<void>(::madvise(memory_.get(), size_, MADV_HUGEPAGE));
        free_[0] = size_;
    }

    [[nodiscard]] std::span<std::byte> all() { return {memory_.get(), size_}; }

    /// `bytes` rounded up to pages; empty: no run is long enough now.
    std::span<std::byte> take(std::size_t bytes) {
        const auto wanted = static_cast<std::size_t>(align_up(bytes));
        for (auto run = free_.begin(); run != free_.end(); ++run) {
            const auto [offset, length] = *run;
            if (length < wanted) continue;
            free_.erase(run);
            if (length > wanted) free_[offset + wanted] = length - wanted;
            return {memory_.get() + offset, wanted};
        }
        return {};
    }

    /// What take() returned.
    void give_back(std::span<std::byte> run) {
        auto offset = static_cast<std::size_t>(run.data() - memory_.get());
        std::size_t length = run.size();
        auto next = free_.lower_bound(offset);
        if (next != free_.end() && next->first == offset + length) {
            length += next->second;
            next = free_.erase(next);
        }
        if (next != free_.begin()) {
            const auto before = std::prev(next);
            if (before->first + before->second == offset) {
                before->second += length;
                return;
            }
        }
        free_[offset] = length;
    }

    [[nodiscard]] bool is_all_free() const { return free_.size() == 1 && free_.begin()->second == size_; }

  private:
    static constexpr std::size_t kHuge = std::size_t{2} << 20;
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::size_t size_;
    std::unique_ptr<std::byte, Free> memory_;
    std::map<std::size_t, std::size_t> free_;  ///< offset -> length
};

}  // namespace tierfs::stage
