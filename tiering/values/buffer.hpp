// A piece of data memory, shared by whoever still needs it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace tierfs {

/// Memory from the Arena (ram/arena.hpp), 4 KiB-aligned, given back when the last owner lets go. One owner
/// fills `writable()` before sharing it; after that the bytes never change, so readers need no lock.
class Buffer {
  public:
    virtual ~Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    [[nodiscard]] std::span<const std::byte> bytes() const { return memory_.first(size_); }
    [[nodiscard]] std::span<std::byte> writable() { return memory_; }  ///< the whole allocation
    /// How much of the allocation is data.
    void set_size(std::size_t size) { size_ = size; }

  protected:
    Buffer(std::span<std::byte> memory, std::size_t size) : memory_(memory), size_(size) {}

  private:
    std::span<std::byte> memory_;
    std::size_t size_;
};

using BufferPtr = std::shared_ptr<Buffer>;

}  // namespace tierfs
