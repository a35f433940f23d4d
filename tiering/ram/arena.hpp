// The one piece of memory that all object data in this process lives in, and its buddy allocator.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "config/mutex.hpp"
#include "config/result.hpp"
#include "tiering/object.hpp"
#include "tiering/ram/buffer.hpp"

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

    /// How many bytes of [begin, end) of this buffer no application has been given before, and notes that
    /// they now were. Kept by pages of 4 KiB, the grain of the kernel's reads. Thread-safe.
    std::uint64_t take_fresh(std::uint64_t begin, std::uint64_t end);

  private:
    std::shared_ptr<Arena> arena_;
    std::unique_ptr<std::atomic<std::uint64_t>[]> given_;  ///< a bit a page
};

using ArenaBufferPtr = std::shared_ptr<ArenaBuffer>;

/// A fixed amount of anonymous memory, handed out in contiguous pieces of 4 KiB to 8 MiB.
///
/// A buddy allocator (Knowlton, "A fast storage allocator", CACM 8(10), 1965): up to 64 KiB sizes are powers
/// of two; above, a piece takes as many 64 KiB blocks as it needs and the tail of its power of two goes back
/// at once. What is free is kept in tables beside the memory, so that pages never used never become resident.
/// Thread-safe; allocation never blocks for memory. Buffers keep the arena alive.
class Arena : public std::enable_shared_from_this<Arena> {
  public:
    static constexpr std::size_t kPage = 4096;
    static constexpr unsigned kOrders = 12;  ///< 4 KiB << 11 = 8 MiB
    static constexpr std::size_t kLargest = kPage << (kOrders - 1);

    /// `bytes` is rounded down to 4 KiB. `listener` may be null. ENOMEM when the address space is not there.
    static Result<std::shared_ptr<Arena>> create(std::uint64_t bytes, std::shared_ptr<FreeListener> listener);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    /// A buffer of at least `size` bytes (1 to kLargest), size set; null: no room, or an impossible size.
    ArenaBufferPtr allocate(std::size_t size);

    /// What `allocate(size)` takes from the arena.
    static std::size_t rounded(std::size_t size);

    /// Gives the memory of larger free pieces back to the system, until they are used again. Others wait for
    /// it.
    void return_free() TIERFS_EXCLUDES(mutex_);

    [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
    [[nodiscard]] std::uint64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }

  private:
    friend class ArenaBuffer;
    struct Link {
        std::uint32_t next, previous;
    };
    struct Release {
        void operator()(void* memory) const { std::free(memory); }
    };

    Arena() = default;
    void give_back(std::span<std::byte> memory, bool quiet);
    void add_free(std::uint32_t page, unsigned order) TIERFS_REQUIRES(mutex_);
    void remove_free(std::uint32_t page, unsigned order) TIERFS_REQUIRES(mutex_);
    void free_block(std::uint32_t page, unsigned order) TIERFS_REQUIRES(mutex_);
    void free_pages(std::uint32_t page, std::uint32_t count) TIERFS_REQUIRES(mutex_);

    std::byte* base_ = nullptr;
    std::uint64_t capacity_ = 0;
    std::uint32_t pages_ = 0;
    std::shared_ptr<FreeListener> listener_;
    std::atomic<std::uint64_t> in_use_{0}, peak_{0};

    Mutex mutex_;
    /// Per page: 1 + order where a free block starts, else 0.
    std::unique_ptr<std::uint8_t[], Release> free_order_ TIERFS_GUARDED_BY(mutex_);
    std::unique_ptr<Link[], Release> links_ TIERFS_GUARDED_BY(mutex_);
    std::array<std::uint32_t, kOrders> heads_ TIERFS_GUARDED_BY(mutex_){};  ///< 1 + page; 0: empty
};

}  // namespace tierfs
