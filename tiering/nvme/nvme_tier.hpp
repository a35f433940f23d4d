// The NVMe tier of one source on one device: small objects packed in extents, large ones in backing files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "tiering/object.hpp"
#include "tiering/ram/buffer.hpp"
#include "tiering/store.hpp"

namespace tierfs {

class Index;

struct NvmeOptions {
    std::filesystem::path
        directory;            ///< of this source, exists, mode 0700; extents/ and files/ are made in it
    std::uint64_t limit = 0;  ///< bytes on the device, enforced by eviction; at least 16 MiB
    std::uint64_t pack_max_object = 1 << 20;
    /// Data that may wait to be written while the device stalls; without a stall, the caller's memory alone
    /// bounds it.
    std::uint64_t stalled_queue = 64 << 20;
    std::uint64_t write_buffer = 4 << 20;  ///< chunk buffers of the tier's own, bytes
};

/// Thread-safe. `read` blocks for the device; `admit` does not block. Everything read is verified by content
/// id and checksum; what does not verify is counted, dropped, and is a miss. Faults of the device (ENOSPC,
/// EIO, EROFS) make the tier read-only or empty (state "unstable", "down"), never the caller fail. Locations
/// stand in the Index (record L), which must outlive the tier.
class NvmeTier {
  public:
    /// Opens or makes the tier; usable at once, without a scan, also after a kill. Extents that the index
    /// does not know (index lost) are taken in from their chunk tables. Errors: the directory cannot be
    /// written.
    static Result<std::unique_ptr<NvmeTier>> open(const NvmeOptions& options, Index& index);
    virtual ~NvmeTier() = default;

    /// Reads [offset, offset + out.size()) of an object if all of it is here and verifies; false: a miss
    /// (whole). `offset` is a multiple of kBlockSize and the range ends on a block's or the object's end.
    /// `out` is 4 KiB-aligned and its memory is valid up to the next multiple of 4 KiB (direct I/O writes
    /// there).
    virtual bool read(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                      std::span<std::byte> out) = 0;

    /// Whether a block is here (not verified); cheap, memory or index only.
    [[nodiscard]] virtual bool contains(const ContentId& id, std::uint64_t object_size,
                                        std::uint64_t block) = 0;

    /// Takes a piece of an object for writing in the background. A small object (up to pack_max_object) comes
    /// whole: `offset` 0 and all its bytes; a large one in pieces aligned as in `read`. Holding `data` until
    /// it is written is the back-pressure: it counts in the caller's data memory. What is here already is
    /// skipped.
    virtual void admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                       BufferPtr data) = 0;

    /// As above for a piece that spans several buffers: all of [offset, ...) in order.
    virtual void admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                       std::vector<BufferPtr> data) = 0;

    /// Whether what is here stays: then a full tier takes nothing more, but in place of units (extents,
    /// files) that were not read since `renew`. False at first: the least used goes. Does not hold for what a
    /// lowered limit or a full device makes go.
    virtual void keep(bool kept) = 0;
    virtual void renew() = 0;

    /// Whether `admit` of such a piece has a chance; cheap, memory only.
    [[nodiscard]] virtual bool takes(std::uint64_t object_size, std::uint64_t length) const = 0;

    /// To be called about once a second: when the device has been busy with one thing for two seconds, what
    /// waits beyond stalled_queue is dropped and counted, so that readers find memory.
    virtual void relieve() = 0;

    /// Writes out everything admitted so far, partial chunks too; blocks. Called before a clean stop.
    virtual void flush() = 0;

    /// Forgets an object (its version is gone at the origin). Space comes back with its extent's eviction.
    virtual void erase(const ContentId& id) = 0;

    [[nodiscard]] virtual TierStats stats() const = 0;
    [[nodiscard]] virtual std::uint64_t checksum_errors() const = 0;

    /// Stops the writer after a flush; idempotent.
    virtual void close() = 0;
};

}  // namespace tierfs
