// Gathers small objects into one chunk in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "backends/extent/format.hpp"
#include "config/base/aligned_buffer.hpp"
#include "config/base/codec.hpp"

namespace tierfs {

/// What the bytes of an entry are: an object as it is, or compressed.
struct StoredAs {
    Codec codec = Codec::none;
    std::uint64_t object_size = 0;  ///< of a compressed one
};

/// The chunk under construction: table and data stand together in one aligned buffer of about 1.06 MiB, so
/// that the chunk goes out in a single direct write. Used again after `clear`. Not thread-safe.
class ChunkWriter {
  public:
    ChunkWriter();

    /// Starts a chunk that may take at most `room` bytes of file, table included.
    void start(std::uint64_t room);

    /// Copies the bytes (their pieces in order) in; false: they do not fit and nothing has changed.
    bool add(const ContentId& id, std::span<const std::span<const std::byte>> pieces, StoredAs as = {});

    /// Completes the table; the bytes to write at `offset` of the extent. Valid until the next call.
    std::span<const std::byte> finish(const ExtentUuid& uuid, std::uint32_t chunk, std::uint64_t offset);

    void clear();

    [[nodiscard]] bool empty() const { return table_.entries.empty(); }
    [[nodiscard]] bool holds(const ContentId& id) const { return ids_.count(id) != 0; }
    [[nodiscard]] const ChunkTable& table() const { return table_; }
    /// The bytes of an entry of the table, until `clear`.
    [[nodiscard]] std::span<const std::byte> stored(const ChunkEntry& entry) const {
        return buffer_.span().subspan(kMaxTableBytes + entry.offset, entry.stored_length);
    }
    [[nodiscard]] std::uint64_t data_bytes() const { return cursor_; }

  private:
    AlignedBuffer buffer_;  ///< table right-aligned in the first kMaxTableBytes, data behind it
    ChunkTable table_;
    std::unordered_set<ContentId> ids_;
    std::size_t encoded_ = 0;
    std::uint64_t cursor_ = 0;
    std::uint64_t room_ = 0;
};

}  // namespace tierfs
