// Memory for what is read and not handed on. Internal to tiering/nvme.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "config/base/aligned_buffer.hpp"
#include "config/base/mutex.hpp"
#include "tiering/values/buffer.hpp"

namespace tierfs {

/// Where the stored bytes of a compressed object lie while it is decompressed: in data memory, which counts
/// in memory.limit. While that has no room, or nobody gave any, readers take turns with one piece of our own.
/// Thread-safe.
class Scratch {
  public:
    /// 4 KiB-aligned memory of at least so many bytes, or null; does not wait.
    using Source = std::function<BufferPtr(std::size_t)>;

    /// One piece, given back at the end of its life.
    class Piece {
      public:
        Piece(BufferPtr buffer, std::size_t size)
            : buffer_(std::move(buffer)), bytes_(buffer_->writable().first(size)) {}
        Piece(Scratch& owner, std::span<std::byte> bytes) : owner_(&owner), bytes_(bytes) {}
        ~Piece();
        Piece(const Piece&) = delete;
        Piece& operator=(const Piece&) = delete;
        Piece(Piece&& other) noexcept
            : owner_(std::exchange(other.owner_, nullptr)),
              buffer_(std::move(other.buffer_)),
              bytes_(other.bytes_) {}
        Piece& operator=(Piece&&) = delete;
        [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

      private:
        Scratch* owner_ = nullptr;  ///< of the piece of our own
        BufferPtr buffer_;
        std::span<std::byte> bytes_;
    };

    void use(Source source) TIERFS_EXCLUDES(mutex_);
    /// Nothing: others held the last piece for a whole second, as when a device hangs.
    std::optional<Piece> take(std::size_t size) TIERFS_EXCLUDES(mutex_);

  private:
    void give_back() TIERFS_EXCLUDES(mutex_);

    Mutex mutex_;
    std::condition_variable given_back_;
    Source source_ TIERFS_GUARDED_BY(mutex_);
    bool taken_ TIERFS_GUARDED_BY(mutex_) = false;
    AlignedBuffer own_;  ///< of who set `taken_`
};

}  // namespace tierfs
