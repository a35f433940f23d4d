// Memory that direct I/O accepts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace tierfs {

/// Direct I/O wants memory, file offsets and lengths on multiples of the device's logical block; 4 KiB is
/// enough for every device and is the page size (open(2), NOTES, O_DIRECT).
inline constexpr std::size_t kDiskAlignment = 4096;

constexpr std::uint64_t align_down(std::uint64_t bytes) {
    return bytes & ~std::uint64_t{kDiskAlignment - 1};
}
constexpr std::uint64_t align_up(std::uint64_t bytes) {
    return align_down(bytes + kDiskAlignment - 1);
}
inline bool is_aligned(const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % kDiskAlignment == 0;
}

/// Owns heap memory on a 4 KiB boundary, its size rounded up to 4 KiB. Contents start undefined. Movable;
/// no thread-safety of its own. Throws std::bad_alloc like operator new.
class AlignedBuffer {
  public:
    AlignedBuffer() = default;
    explicit AlignedBuffer(std::size_t size) : size_(align_up(size)) {
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kDiskAlignment, size_)));
        if (size_ != 0 && !memory_) throw std::bad_alloc();
    }

    [[nodiscard]] std::byte* data() { return memory_.get(); }
    [[nodiscard]] const std::byte* data() const { return memory_.get(); }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::span<std::byte> span() { return {memory_.get(), size_}; }
    [[nodiscard]] std::span<const std::byte> span() const { return {memory_.get(), size_}; }

  private:
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::size_t size_ = 0;
};

}  // namespace tierfs
