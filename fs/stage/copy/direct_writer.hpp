// Aligned writes, many at a time, from registered memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

struct io_uring;

namespace tierfs::stage {

/// A write that has ended.
struct WriteDone {
    std::uint64_t token = 0;
    int code = 0;  ///< errno; 0: all bytes are written
};

/// Writes through an io_uring with the memory registered (WRITE_FIXED, io_uring_prep_write_fixed(3)): the
/// kernel then need not pin its pages for each write. Where io_uring is refused (seccomp, sysctl) writes are
/// pwrite(2), one after the other; where only registering is (RLIMIT_MEMLOCK, a kernel before 5.19), plain
/// writes of the ring.
///
/// For one thread, but for wake(). Who destroys it waits for all writes first.
class DirectWriter {
  public:
    /// `use_ring` false: pwrite, for tests. `most_slabs`: pieces of memory that add_memory() may be told of.
    explicit DirectWriter(std::size_t most_slabs, bool use_ring = true);
    ~DirectWriter();
    DirectWriter(const DirectWriter&) = delete;
    DirectWriter& operator=(const DirectWriter&) = delete;

    /// Registers a piece of memory, on a page boundary; it outlives this.
    void add_memory(std::span<std::byte> slab);

    /// Starts a write of `data`, which lies within one piece of memory (or in none: that is slower). Tokens
    /// of writes under way differ.
    void write(int fd, std::span<const std::byte> data, std::uint64_t offset, std::uint64_t token);

    /// Sends what was started and waits until a write ends, wake() is called, or the time is over.
    std::vector<WriteDone> wait(std::chrono::milliseconds patience);

    /// From any thread: wait() returns, now or the next time.
    void wake() const;

    [[nodiscard]] std::size_t under_way() const { return writes_.size(); }
    [[nodiscard]] bool uses_ring() const { return ring_ != nullptr; }
    /// All of the memory is registered.
    [[nodiscard]] bool uses_fixed() const { return may_register_; }

  private:
    struct Write {
        int fd = -1;
        std::span<const std::byte> rest;
        std::uint64_t offset = 0;
    };
    struct CloseRing {
        void operator()(io_uring* ring) const;
    };

    void start_ring(std::size_t most_slabs);
    /// The number that this memory is registered by; -1: it is not.
    [[nodiscard]] int slab_of(std::span<const std::byte> data) const;
    void prepare(std::uint64_t token, const Write& one);
    void watch_wakes();
    void take_completion(std::uint64_t token, int result);
    void end(std::uint64_t token, int code);

    std::unique_ptr<io_uring, CloseRing> ring_;
    bool may_register_ = false;
    std::size_t most_slabs_ = 0;
    std::vector<std::span<std::byte>> slabs_;  ///< registered, by their numbers
    FileDescriptor wakes_;
    std::uint64_t wake_count_ = 0;  ///< where the ring reads the event counter to
    bool watched_ = false;
    std::map<std::uint64_t, Write> writes_;
    std::vector<WriteDone> done_;
};

}  // namespace tierfs::stage
