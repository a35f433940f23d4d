// backends/extent/: the format of extents, large append-only files of packed small objects, and of the
// checksums of everything that tierfs keeps on NVMe. Pure encoding, no policy. tiering/ may include it.
//
// All numbers are little endian. Sizes and offsets are bytes.
//
// EXTENT FILE  extents/<number, 16 hex>-<uuid, 32 hex>.extent
//   A run of chunks from offset 0 on, each directly after the one before. The file may end in unused
//   (preallocated, zero) space. `number` grows and `uuid` is random, so no extent is ever taken for another.
//
// CHUNK        table (a multiple of 4096, at most kMaxTableBytes), then data (a multiple of 4096)
//
//   offset  size  field
//        0     8  magic "TFSCHUNK"
//        8     4  format version, 1
//       12     4  table_bytes: length of the table, this header included
//       16    16  uuid of the extent (as in the file's name, high half first)
//       32     4  number of the chunk in its extent, from 0
//       36     4  entry count
//       40     8  offset of the chunk in the file
//       48     4  data_bytes: length of the data
//       52     4  zero
//       56     8  XXH3-64 of the whole table with this field zero
//       64        the entries, one after the other, then zeros up to table_bytes
//
// ENTRY        one object, whole
//
//        0    16  content id (high, low)
//       16     8  object size
//       24     4  offset of the stored bytes from the chunk's data
//       28     4  stored length
//       32     1  codec (config/base/codec.hpp): 0 none, stored length = object size; 1 one block of LZ4; 2
//       one frame
//                  of Zstandard. 1 and 2: the whole object, at most 1 MiB, and the stored length is less
//       33     3  zero
//       36     4  number of checksums: one for each 32 KiB of stored bytes, the last may cover less
//       40        the checksums, 4 bytes each
//
//   Entries stand in the order of their bytes, and none overlaps another. An entry of another codec is of a
//   later version: whoever reads the table passes it over, and the object is not here. (What knew no codecs
//   takes no chunk that has a compressed entry.)
//   An entry of 4096 bytes or more starts on a multiple of 4096; a smaller one never crosses one. So a whole
//   small object costs one sector, and a large one is read by direct I/O into the reader's memory.
//
// CHECKSUM     crc32c of: content id (high, low: 16 bytes), unit number (8 bytes: offset in the stored bytes
// /
//   unit), unit (8 bytes: 32768 in extents, 4096 in sidecars), then the bytes. 0 stands for "absent" in
//   sidecars, so a sum of 0 is stored as 1. Since identity and position are mixed in, a good block in the
//   wrong place is noticed as well as a bad one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/origin/object.hpp"

namespace tierfs {

inline constexpr std::size_t kChunkHeaderBytes = 64;
inline constexpr std::size_t kEntryHeaderBytes = 40;
inline constexpr std::size_t kMaxTableBytes = 64 * 1024;
inline constexpr std::uint32_t kExtentVersion = 1;
inline constexpr std::uint32_t kExtentUnit = 32 * 1024;  ///< bytes that a checksum in an extent covers
inline constexpr std::uint32_t kSidecarUnit = 4 * 1024;  ///< and in a sidecar
inline constexpr std::uint32_t kMaxChunkData = 1 << 20;  ///< target and limit of data in one chunk
inline constexpr std::uint32_t kMaxPackedObject = kMaxChunkData;

/// Random, names one extent file.
struct ExtentUuid {
    std::uint64_t high = 0, low = 0;
    friend bool operator==(const ExtentUuid&, const ExtentUuid&) = default;
};

/// The name of an extent file, and back (nothing when it is not one).
std::string extent_file_name(std::uint64_t number, const ExtentUuid& uuid);
struct ExtentName {
    std::uint64_t number = 0;
    ExtentUuid uuid;
};
std::optional<ExtentName> parse_extent_file_name(std::string_view name);

/// CHECKSUM of the comment above; never 0. Thread-safe.
std::uint32_t unit_checksum(const ContentId& id, std::uint64_t unit_number, std::uint32_t unit,
                            std::span<const std::byte> bytes);

/// Number of checksums for so many bytes.
constexpr std::uint64_t unit_count(std::uint64_t bytes, std::uint32_t unit) {
    return (bytes + unit - 1) / unit;
}

struct ChunkEntry {
    ContentId id;
    std::uint64_t object_size = 0;
    std::uint32_t offset = 0;  ///< from the chunk's data
    std::uint32_t stored_length = 0;
    std::uint8_t codec = 0;  ///< its number on disk; codec_of() knows whether it means anything here
    std::vector<std::uint32_t> sums;

    [[nodiscard]] std::size_t encoded_bytes() const { return kEntryHeaderBytes + 4 * sums.size(); }
};

struct ChunkTable {
    ExtentUuid uuid;
    std::uint32_t chunk = 0;        ///< number in the extent
    std::uint64_t offset = 0;       ///< of the chunk in the file
    std::uint32_t table_bytes = 0;  ///< set by parse and by encode
    std::uint32_t data_bytes = 0;   ///< multiple of 4096
    std::vector<ChunkEntry> entries;

    [[nodiscard]] std::uint64_t data_offset() const { return offset + table_bytes; }
    [[nodiscard]] std::uint64_t end() const { return data_offset() + data_bytes; }
};

/// Length of the table for entries of so many encoded bytes together.
std::size_t table_bytes_for(std::size_t encoded_entries);

/// Writes the table into the first `table_bytes` of `out` and zeros its rest; `table.table_bytes` is set.
/// `out` is at least table_bytes_for(...) long.
void encode_chunk_table(ChunkTable& table, std::span<std::byte> out);

/// The length that a table says it has, from its first 64 bytes; nothing when they are not the start of a
/// table of this extent at this offset.
std::optional<std::uint32_t> chunk_table_length(std::span<const std::byte> header, const ExtentUuid& uuid,
                                                std::uint64_t offset);

/// Reads a whole table. Nothing when anything about it is wrong: bytes may come from anywhere.
std::optional<ChunkTable> parse_chunk_table(std::span<const std::byte> bytes, const ExtentUuid& uuid,
                                            std::uint64_t offset);

/// Little-endian fields of a byte string at fixed places. The caller keeps `at + sizeof(T)` inside.
template <typename T>
T get_field(std::span<const std::byte> bytes, std::size_t at) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}
template <typename T>
void put_field(std::span<std::byte> bytes, std::size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace tierfs
