// Chunk tables that get past their checksum, and what must hold for those that are taken.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "backends/disk/aligned_buffer.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tiering/extent/format.hpp"

namespace tierfs::fuzz {

inline constexpr ExtentUuid kUuid{0x0123456789abcdefU, 0xfedcba9876543210U};

/// Puts magic, version, length, uuid, offset and checksum of a table in order; `bytes` is whole pages, and
/// what the entries say stays as it is. The layout is that of tiering/extent/format.hpp.
inline void mend_table(std::span<std::byte> bytes, std::uint64_t offset) {
    put_field(bytes, 0, std::uint64_t{0x4B4E554843534654U});
    put_field(bytes, 8, kExtentVersion);
    put_field(bytes, 12, static_cast<std::uint32_t>(bytes.size()));
    put_field(bytes, 16, kUuid.high);
    put_field(bytes, 24, kUuid.low);
    put_field(bytes, 40, offset);
    put_field(bytes, 56, std::uint64_t{0});
    put_field(bytes, 56, std::uint64_t{XXH3_64bits(bytes.data(), bytes.size())});
}

inline void check_table(const ChunkTable& table) {
    require(table.table_bytes % kDiskAlignment == 0 && table.table_bytes <= kMaxTableBytes,
            "a table is whole pages");
    require(table.data_bytes % kDiskAlignment == 0 && table.data_bytes <= kMaxChunkData,
            "data is whole pages");
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    for (const auto& entry : table.entries) {
        const std::uint64_t end = std::uint64_t{entry.offset} + entry.stored_length;
        require(end <= table.data_bytes, "an entry lies inside its chunk");
        require(entry.sums.size() == unit_count(entry.stored_length, kExtentUnit),
                "each unit has its checksum");
        places.emplace_back(entry.offset, end);
    }
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < places.size(); ++i) {
        require(places[i - 1].second <= places[i].first, "no entry overlaps another");
    }
}

}  // namespace tierfs::fuzz
