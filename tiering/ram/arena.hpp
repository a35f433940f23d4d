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
#include "tiering/ram/first_touch.hpp"
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
///
/// A large arena grows: memory is handed out from its front, and a thread of low rank makes resident what comes
/// next (FirstTouch), so that there is some as a rule when it is wanted. Who can do with memory that others have
/// done with asks for what is resident first.
class Arena : public std::enable_shared_from_this<Arena> {
  public:
    static constexpr std::size_t kPage = 4096;
    static constexpr std::size_t kLargest = std::size_t{8} << 20;
    /// Arenas of so many bytes and more grow, from there on only where there is nothing else to be had.
    static constexpr std::uint64_t kGrowsFrom = std::uint64_t{256} << 20;
    enum class Memory : std::uint8_t { any, resident };

    /// `bytes` is rounded down to 4 KiB. `listener` may be null. ENOMEM when the address space is not there.
    static Result<std::shared_ptr<Arena>> create(std::uint64_t bytes, std::shared_ptr<FreeListener> listener,
                                                 NumaNodes nodes = NumaNodes::of_this_machine());
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    /// A buffer of at least `size` bytes (1 to kLargest), size set; null: no room, or an impossible size.
    /// `resident`: null, too, where only memory would do that nobody has touched yet and that is dear to touch, and
    /// where the nearest node has no more; small arenas, and the first kGrowsFrom bytes of a large one, count as
    /// touched, and so does what return_free gave back.
    ArenaBufferPtr allocate(std::size_t size, Memory memory = Memory::any);

    /// What `allocate(size)` takes from the arena.
    static constexpr std::size_t rounded(std::size_t size) { return (size + kPage - 1) / kPage * kPage; }

    /// Gives the memory of larger free pieces back to the system, until they are used again. Others wait for
    /// it.
    void return_free();

    [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
    [[nodiscard]] std::uint64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }
    /// Bytes that are in use or free to be used again; the rest has not been touched.
    [[nodiscard]] std::uint64_t opened() const { return opened_.load(std::memory_order_relaxed); }
    /// The NUMA node whose memory this is, if `memory` is of this arena and it has several.
    [[nodiscard]] std::optional<int> node_of(const std::byte* memory) const;

  private:
    friend class ArenaBuffer;
    /// Of one node.
    struct Part {
        Part(std::uint32_t first_page, std::uint32_t count, std::uint32_t free)
            : first(first_page), pages(count), heap(count, free), opened(free) {}
        const std::uint32_t first, pages;  ///< in the arena
        Mutex mutex;
        PageHeap heap TIERFS_GUARDED_BY(mutex);  ///< of the pages in front of `opened`
        /// Pages; those that are being made resident, too. Changed under the lock.
        std::atomic<std::uint32_t> opened;
        std::atomic<std::uint32_t> used{0};  ///< pages; changed under the lock
    };

    Arena() = default;
    Result<void> map(std::uint64_t bytes);
    void divide();
    [[nodiscard]] std::size_t part_of(std::uint32_t page) const;
    std::optional<std::uint32_t> take(std::uint32_t pages, Memory memory);
    std::optional<std::uint32_t> take_of(Part& part, std::uint32_t pages, Memory memory);
    void give_back(std::span<std::byte> memory, bool quiet);
    void add_part(std::uint32_t first, std::uint32_t pages);
    [[nodiscard]] std::uint32_t open(Part& part, std::uint32_t pages) TIERFS_REQUIRES(part.mutex);
    [[nodiscard]] std::uint64_t wanted_free() const;
    [[nodiscard]] bool is_short(const Part& part) const;
    std::optional<std::chrono::nanoseconds> grow();
    std::optional<std::chrono::nanoseconds> grow_part(Part& part);

    std::byte* base_ = nullptr;
    std::span<std::byte> mapped_;
    std::uint64_t capacity_ = 0;
    bool grows_ = false;
    std::shared_ptr<FreeListener> listener_;
    NumaNodes nodes_;
    std::vector<std::unique_ptr<Part>> parts_;  ///< one, or one for each of nodes_
    std::atomic<std::uint64_t> in_use_{0}, peak_{0}, opened_{0};
    std::unique_ptr<FirstTouch> first_touch_;  ///< of one that grows
};

}  // namespace tierfs
