// The memory that all object data in this process lives in.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/origin/object.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"
#include "tiering/ram/numa.hpp"
#include "tiering/ram/page_heap.hpp"
#include "tiering/values/buffer.hpp"

namespace tierfs {

class Arena;

/// Told about each piece of memory that comes back. Called on whatever thread let go of it, possibly under
/// that thread's locks: must only set a flag and notify.
class FreeListener {
  public:
    virtual ~FreeListener() = default;
    virtual void memory_freed() noexcept = 0;
};

/// Memory from an Arena, with what the accounting by tier needs to know about the bytes in it.
///
/// One thread fills it and sets the plain members before it is shared; `used` may then be changed by anyone.
class ArenaBuffer final : public Buffer {
  public:
    enum class Source : std::uint8_t { origin, nvme };

    /// For Arena alone.
    ArenaBuffer(std::shared_ptr<Arena> arena, std::span<std::byte> memory, std::size_t size);
    ~ArenaBuffer() override;

    [[nodiscard]] std::size_t capacity() { return writable().size(); }

    Source source = Source::origin;
    bool fetched_ahead = false;       ///< before a reader asked
    std::uint64_t object_offset = 0;  ///< of the first byte; in the RAM tier a multiple of kBlockSize
    /// Comes back without a word to the listener: for memory that the caller knows to be free again.
    bool quiet = false;
    /// Bit i: an application has been given bytes of block i (counted from the buffer's start).
    std::atomic<std::uint64_t> used{0};

    /// Notes that an application has been given [begin, end) of this buffer. True, once: now it has been given
    /// some of each block, and the last byte. Thread-safe.
    bool give(std::uint64_t begin, std::uint64_t end);
    /// Whether `give` has said so.
    [[nodiscard]] bool is_over() const { return over_.load(); }

    /// How many bytes of [begin, end) of this buffer no application has been given before, and notes that
    /// they now were. Kept by pages of 4 KiB, the grain of the kernel's reads. Thread-safe.
    std::uint64_t take_fresh(std::uint64_t begin, std::uint64_t end);

  private:
    std::shared_ptr<Arena> arena_;
    std::atomic<bool> ended_{false}, over_{false};
    std::unique_ptr<std::atomic<std::uint64_t>[]> given_;  ///< a bit a page
};

using ArenaBufferPtr = std::shared_ptr<ArenaBuffer>;

/// A fixed amount of anonymous memory, handed out in contiguous pieces of whole pages, up to 8 MiB each.
///
/// One part for each NUMA node, with memory of that node; a piece comes from the part that is nearest to the
/// processor of whoever allocates (a thread that serves a reader runs where the reader does), from the next
/// one when it is full. What is free is kept in tables beside the memory, so that pages never used never
/// become resident (PageHeap). Thread-safe; allocation never blocks for memory. Buffers keep the arena alive.
class Arena : public std::enable_shared_from_this<Arena> {
  public:
    static constexpr std::size_t kPage = 4096;
    static constexpr std::size_t kLargest = std::size_t{8} << 20;

    /// `bytes` is rounded down to 4 KiB. `listener` may be null. ENOMEM when the address space is not there.
    static Result<std::shared_ptr<Arena>> create(std::uint64_t bytes, std::shared_ptr<FreeListener> listener,
                                                 NumaNodes nodes = NumaNodes::of_this_machine());
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    /// A buffer of at least `size` bytes (1 to kLargest), size set; null: no room, or an impossible size.
    ArenaBufferPtr allocate(std::size_t size);

    /// What `allocate(size)` takes from the arena.
    static constexpr std::size_t rounded(std::size_t size) { return (size + kPage - 1) / kPage * kPage; }

    /// Gives the memory of larger free pieces back to the system, until they are used again. Others wait for
    /// it.
    void return_free();

    [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
    [[nodiscard]] std::uint64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }
    /// The NUMA node whose memory this is, if `memory` is of this arena and it has several.
    [[nodiscard]] std::optional<int> node_of(const std::byte* memory) const;

  private:
    friend class ArenaBuffer;
    /// Of one node.
    struct Part {
        Part(std::uint32_t first_page, std::uint32_t count) : first(first_page), pages(count), heap(count) {}
        const std::uint32_t first, pages;  ///< in the arena
        Mutex mutex;
        PageHeap heap TIERFS_GUARDED_BY(mutex);
    };

    Arena() = default;
    Result<void> map(std::uint64_t bytes);
    void divide();
    [[nodiscard]] std::size_t part_of(std::uint32_t page) const;
    std::optional<std::uint32_t> take(std::uint32_t pages);
    void give_back(std::span<std::byte> memory, bool quiet);

    std::byte* base_ = nullptr;
    std::uint64_t capacity_ = 0;
    std::shared_ptr<FreeListener> listener_;
    NumaNodes nodes_;
    std::vector<std::unique_ptr<Part>> parts_;  ///< one, or one for each of nodes_
    std::atomic<std::uint64_t> in_use_{0}, peak_{0};
};

}  // namespace tierfs
