// Chunk tables that get past their checksum, and what must hold for those that are taken.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "backends/extent/codec.hpp"
#include "backends/extent/format.hpp"
#include "config/base/aligned_buffer.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace tierfs::fuzz {

inline constexpr ExtentUuid kUuid{0x0123456789abcdefU, 0xfedcba9876543210U};

/// Puts magic, version, length, uuid, offset and checksum of a table in order; `bytes` is whole pages, and
/// what the entries say stays as it is. The layout is that of backends/extent/format.hpp.
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
        const auto codec = codec_of(entry.codec);
        require(!codec || (*codec == Codec::none) == (entry.object_size == entry.stored_length),
                "what is compressed is smaller, and the rest is as long as it is");
        places.emplace_back(entry.offset, end);
    }
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < places.size(); ++i) {
        require(places[i - 1].second <= places[i].first, "no entry overlaps another");
    }
}

inline constexpr std::byte kGoodByte{0x55};

/// Its bytes on disk, all kGoodByte or compressed, by the length that `entry` has so far.
inline std::vector<std::byte> stored_bytes(ChunkEntry& entry) {
    const auto codec = kCodecs.at(entry.stored_length % kCodecs.size());
    entry.object_size = entry.stored_length;
    if (codec == Codec::none) return std::vector<std::byte>(entry.stored_length, kGoodByte);
    entry.object_size += 4096;  // so much that compressing pays
    static Compressor compressor;
    std::vector<std::byte> out(kDiskAlignment);
    const auto length = compressor.compress(codec, std::vector<std::byte>(entry.object_size, kGoodByte), out);
    require(length && *length < entry.object_size, "equal bytes compress");
    out.resize(*length);
    entry.codec = static_cast<std::uint8_t>(codec);
    entry.stored_length = static_cast<std::uint32_t>(*length);
    return out;
}

/// A good chunk of make_extent.
struct GoodChunk {
    std::uint64_t at = 0, end = 0;
    ContentId id;  ///< of its one object, whose bytes are all kGoodByte
    std::uint64_t size = 0;
};
/// An extent file of zeros, garbage, tables that are in order as far as their entries are, and whole good
/// chunks; `honest` is whether it has nothing but good chunks.
inline std::vector<std::byte> make_extent(FuzzedDataProvider& input, std::vector<GoodChunk>& good,
                                          bool& honest) {
    constexpr std::size_t most_pages = 24;
    std::vector<std::byte> file;
    std::uint32_t number = 0;
    honest = true;
    while (file.size() < most_pages * kDiskAlignment && input.remaining_bytes() > 0) {
        const auto kind = input.ConsumeIntegralInRange<unsigned>(0, 4);
        const std::uint64_t at = file.size();
        if (kind == 4) break;
        if (kind == 3) {
            ChunkTable table;
            table.uuid = kUuid;
            table.chunk = number++;
            table.offset = at;
            table.data_bytes = static_cast<std::uint32_t>(kDiskAlignment) *
                               input.ConsumeIntegralInRange<std::uint32_t>(1, 3);
            ChunkEntry entry;
            entry.id = {input.ConsumeIntegralInRange<std::uint64_t>(0, 3), 1};
            entry.stored_length = input.ConsumeIntegralInRange<std::uint32_t>(1, table.data_bytes);
            const auto bytes = stored_bytes(entry);
            entry.sums = {unit_checksum(entry.id, 0, kExtentUnit, bytes)};
            table.entries = {entry};
            AlignedBuffer page(kMaxTableBytes);
            encode_chunk_table(table, page.span());
            file.insert(file.end(), page.data(), page.data() + table.table_bytes);
            file.insert(file.end(), bytes.begin(), bytes.end());
            file.resize(table.end(), kGoodByte);
            good.push_back({at, table.end(), entry.id, entry.object_size});
            continue;
        }
        honest = false;
        file.resize(at + kDiskAlignment);
        if (kind == 0) continue;
        const auto bytes =
            input.ConsumeBytes<std::uint8_t>(input.ConsumeIntegralInRange<std::size_t>(0, 256));
        std::transform(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(at),
                       [](std::uint8_t byte) { return std::byte{byte}; });
        if (kind == 2) mend_table(std::span(file).subspan(at), at);
    }
    return file;
}

inline void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

/// A sidecar's header for a file of `size` bytes; the layout is that of tiering/nvme/backing_file.hpp.
inline void mend_sidecar(const ContentId& id, std::span<std::byte> header, std::uint64_t size) {
    std::fill(header.begin(), header.end(), std::byte{0});
    put_field(header, 0, std::uint64_t{0x31534D5553534654U});
    put_field(header, 8, std::uint32_t{1});
    put_field(header, 12, kSidecarUnit);
    put_field(header, 16, id.high);
    put_field(header, 24, id.low);
    put_field(header, 32, size);
    put_field(header, 40, std::uint64_t{XXH3_64bits(header.data(), 40)});
}

}  // namespace tierfs::fuzz
