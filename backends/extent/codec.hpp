// Compresses objects for extents, and brings them back. Pure computing; tiering/ may include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "config/base/aligned_buffer.hpp"
#include "config/base/codec.hpp"

namespace tierfs {

/// What an entry of so many bytes takes of an extent: small ones share a page, others have theirs to
/// themselves (format.hpp).
constexpr std::uint64_t extent_bytes(std::uint64_t length) {
    return length < kDiskAlignment ? length : align_up(length);
}

/// The longest compressed form of an object of `size` bytes that is worth keeping: it takes at least 12 %
/// less of the extent. Anything else would be decompressed at each read for nothing. 0: there is none.
constexpr std::uint64_t longest_kept(std::uint64_t size) {
    const std::uint64_t room = extent_bytes(size) * 88 / 100;
    return room < kDiskAlignment ? room : align_down(room);
}

/// Keeps the memory that compressing takes (zstd's level 1: 0.6 MiB, level 19: 17 MiB) for the next object.
/// Not thread-safe: each thread that writes has one.
class Compressor {
  public:
    Compressor();
    ~Compressor();
    Compressor(Compressor&&) noexcept;
    Compressor& operator=(Compressor&&) noexcept;

    /// Of sources and prose in pieces of 64 KiB (zstd 1.5.4, one core), level 1 leaves 0.35 of the bytes at
    /// 230 MB/s, level 3 0.33 at 170, level 6 0.32 at 70; -1 leaves 0.42 at 260. All decompress alike, at 0.7
    /// GB/s. One thread a device compresses: what is slower than the origin would hold the readers' memory.
    static constexpr int kFastLevel = 1;

    /// Compresses `in`, 1 to kMaxPackedObject bytes, into the front of `out` (elsewhere in memory) and
    /// returns the length. Nothing: it does not fit there, there is
    /// nothing to compress, or the library has no memory. `level` is zstd's.
    std::optional<std::size_t> compress(Codec codec, std::span<const std::byte> in, std::span<std::byte> out,
                                        int level = kFastLevel);

  private:
    struct Contexts;
    std::unique_ptr<Contexts> contexts_;  ///< made with the first use
};

/// Fills all of `out` from what Compressor::compress gave; false: it is not the compressed form of just so
/// many bytes, and `out` holds anything. `stored` may be any bytes. Thread-safe; each thread that calls it
/// keeps 94 KiB from its first zstd on.
[[nodiscard]] bool decompress(Codec codec, std::span<const std::byte> stored, std::span<std::byte> out);

}  // namespace tierfs
