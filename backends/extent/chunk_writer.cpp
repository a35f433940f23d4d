#include "backends/extent/chunk_writer.hpp"

#include <algorithm>
#include <cstring>

namespace tierfs {

ChunkWriter::ChunkWriter() : buffer_(kMaxTableBytes + kMaxChunkData) {
    start(buffer_.size());
}

void ChunkWriter::start(std::uint64_t room) {
    clear();
    room_ = room;
}

void ChunkWriter::clear() {
    table_ = ChunkTable{};
    ids_.clear();
    encoded_ = 0;
    cursor_ = 0;
}

bool ChunkWriter::add(const ContentId& id, std::span<const std::span<const std::byte>> pieces, StoredAs as) {
    std::uint64_t size = 0;
    for (const auto piece : pieces) size += piece.size();
    if (size == 0 || size > kMaxPackedObject) return false;
    std::uint64_t at = cursor_;
    if (size >= kDiskAlignment || at % kDiskAlignment + size > kDiskAlignment) at = align_up(at);
    const std::uint64_t sums = unit_count(size, kExtentUnit);
    const std::size_t encoded = encoded_ + kEntryHeaderBytes + 4 * sums;
    const std::uint64_t table_bytes = table_bytes_for(encoded);
    const std::uint64_t data_bytes = align_up(at + size);
    if (table_bytes > kMaxTableBytes || data_bytes > kMaxChunkData || table_bytes + data_bytes > room_) {
        return false;
    }

    const std::span<std::byte> data = buffer_.span().subspan(kMaxTableBytes);
    std::fill(data.begin() + static_cast<std::ptrdiff_t>(cursor_),
              data.begin() + static_cast<std::ptrdiff_t>(data_bytes), std::byte{0});
    std::uint64_t copied = at;
    for (const auto piece : pieces) {
        if (piece.empty()) continue;
        std::memcpy(data.data() + copied, piece.data(), piece.size());
        copied += piece.size();
    }
    ChunkEntry entry;
    entry.id = id;
    entry.object_size = as.codec == Codec::none ? size : as.object_size;
    entry.codec = static_cast<std::uint8_t>(as.codec);
    entry.offset = static_cast<std::uint32_t>(at);
    entry.stored_length = static_cast<std::uint32_t>(size);
    entry.sums.reserve(sums);
    for (std::uint64_t unit = 0; unit < sums; ++unit) {
        const std::uint64_t from = unit * kExtentUnit;
        const auto bytes = data.subspan(at + from, std::min<std::uint64_t>(kExtentUnit, size - from));
        entry.sums.push_back(unit_checksum(id, unit, kExtentUnit, bytes));
    }
    table_.entries.push_back(std::move(entry));
    table_.data_bytes = static_cast<std::uint32_t>(data_bytes);
    ids_.insert(id);
    encoded_ = encoded;
    cursor_ = at + size;
    return true;
}

std::span<const std::byte> ChunkWriter::finish(const ExtentUuid& uuid, std::uint32_t chunk,
                                               std::uint64_t offset) {
    table_.uuid = uuid;
    table_.chunk = chunk;
    table_.offset = offset;
    const std::size_t table_bytes = table_bytes_for(encoded_);
    const auto all = buffer_.span().subspan(kMaxTableBytes - table_bytes, table_bytes + table_.data_bytes);
    encode_chunk_table(table_, all);
    return all;
}

}  // namespace tierfs
