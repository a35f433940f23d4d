#include "backends/extent/format.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdio>

#include "config/base/aligned_buffer.hpp"
#include "config/base/codec.hpp"
#include "config/base/crc32c.hpp"

namespace tierfs {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are copied as they are in memory");

constexpr std::uint64_t kMagic = 0x4B4E554843534654U;  // "TFSCHUNK"
constexpr std::size_t kChecksumAt = 56;
constexpr std::string_view kSuffix = ".extent";

std::uint64_t table_checksum(std::span<const std::byte> table) {
    std::array<std::byte, kChunkHeaderBytes> header{};
    std::memcpy(header.data(), table.data(), kChecksumAt);
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, header.data(), header.size());
    XXH3_64bits_update(&state, table.data() + kChunkHeaderBytes, table.size() - kChunkHeaderBytes);
    return XXH3_64bits_digest(&state);
}

bool parse_hex(std::string_view text, std::uint64_t& value) {
    const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (!std::all_of(text.begin(), text.end(), digit)) return false;
    return std::from_chars(text.data(), text.data() + text.size(), value, 16).ec == std::errc();
}

/// What a later version's codec makes of an object, nobody knows here.
bool valid_size(const ChunkEntry& entry) {
    const auto codec = codec_of(entry.codec);
    if (!codec) return true;
    return *codec == Codec::none
               ? entry.object_size == entry.stored_length
               : entry.object_size > entry.stored_length && entry.object_size <= kMaxPackedObject;
}

/// `from`: where the entry before ends.
bool valid_entry(const ChunkEntry& entry, std::uint64_t from, std::uint32_t data_bytes) {
    if (!valid_size(entry)) return false;
    if (entry.stored_length == 0 || entry.stored_length > data_bytes) return false;
    if (entry.offset < from || entry.offset > data_bytes - entry.stored_length) return false;
    if (entry.sums.size() != unit_count(entry.stored_length, kExtentUnit)) return false;
    const std::uint64_t first = entry.offset / kDiskAlignment;
    const std::uint64_t last = (entry.offset + entry.stored_length - 1) / kDiskAlignment;
    return entry.stored_length < kDiskAlignment ? first == last : entry.offset % kDiskAlignment == 0;
}

}  // namespace

std::string extent_file_name(std::uint64_t number, const ExtentUuid& uuid) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%016llx-%016llx%016llx.extent",
                  static_cast<unsigned long long>(number), static_cast<unsigned long long>(uuid.high),
                  static_cast<unsigned long long>(uuid.low));
    return text.data();
}

std::optional<ExtentName> parse_extent_file_name(std::string_view name) {
    if (name.size() != 16 + 1 + 32 + kSuffix.size() || name[16] != '-' || !name.ends_with(kSuffix)) {
        return std::nullopt;
    }
    ExtentName result;
    if (!parse_hex(name.substr(0, 16), result.number) || !parse_hex(name.substr(17, 16), result.uuid.high) ||
        !parse_hex(name.substr(33, 16), result.uuid.low)) {
        return std::nullopt;
    }
    return result;
}

std::uint32_t unit_checksum(const ContentId& id, std::uint64_t unit_number, std::uint32_t unit,
                            std::span<const std::byte> bytes) {
    const std::array<std::uint64_t, 4> place{id.high, id.low, unit_number, unit};
    const std::uint32_t seed = crc32c(0, std::as_bytes(std::span(place)));
    const std::uint32_t sum = crc32c(seed, bytes);
    return sum == 0 ? 1 : sum;
}

std::size_t table_bytes_for(std::size_t encoded_entries) {
    return align_up(kChunkHeaderBytes + encoded_entries);
}

void encode_chunk_table(ChunkTable& table, std::span<std::byte> out) {
    std::size_t encoded = 0;
    for (const ChunkEntry& entry : table.entries) encoded += entry.encoded_bytes();
    table.table_bytes = static_cast<std::uint32_t>(table_bytes_for(encoded));
    const auto bytes = out.first(table.table_bytes);
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    put_field(bytes, 0, kMagic);
    put_field(bytes, 8, kExtentVersion);
    put_field(bytes, 12, table.table_bytes);
    put_field(bytes, 16, table.uuid.high);
    put_field(bytes, 24, table.uuid.low);
    put_field(bytes, 32, table.chunk);
    put_field(bytes, 36, static_cast<std::uint32_t>(table.entries.size()));
    put_field(bytes, 40, table.offset);
    put_field(bytes, 48, table.data_bytes);
    std::size_t at = kChunkHeaderBytes;
    for (const ChunkEntry& entry : table.entries) {
        put_field(bytes, at, entry.id.high);
        put_field(bytes, at + 8, entry.id.low);
        put_field(bytes, at + 16, entry.object_size);
        put_field(bytes, at + 24, entry.offset);
        put_field(bytes, at + 28, entry.stored_length);
        put_field(bytes, at + 32, entry.codec);
        put_field(bytes, at + 36, static_cast<std::uint32_t>(entry.sums.size()));
        std::copy_n(std::as_bytes(std::span(entry.sums)).begin(), 4 * entry.sums.size(),
                    bytes.data() + at + kEntryHeaderBytes);
        at += entry.encoded_bytes();
    }
    put_field(bytes, kChecksumAt, table_checksum(bytes));
}

std::optional<std::uint32_t> chunk_table_length(std::span<const std::byte> header, const ExtentUuid& uuid,
                                                std::uint64_t offset) {
    if (header.size() < kChunkHeaderBytes || get_field<std::uint64_t>(header, 0) != kMagic ||
        get_field<std::uint32_t>(header, 8) != kExtentVersion) {
        return std::nullopt;
    }
    const ExtentUuid found{get_field<std::uint64_t>(header, 16), get_field<std::uint64_t>(header, 24)};
    const auto length = get_field<std::uint32_t>(header, 12);
    if (found != uuid || get_field<std::uint64_t>(header, 40) != offset) return std::nullopt;
    if (length == 0 || length > kMaxTableBytes || length % kDiskAlignment != 0) return std::nullopt;
    return length;
}

std::optional<ChunkTable> parse_chunk_table(std::span<const std::byte> bytes, const ExtentUuid& uuid,
                                            std::uint64_t offset) {
    const auto length = chunk_table_length(bytes, uuid, offset);
    if (!length || *length > bytes.size()) return std::nullopt;
    bytes = bytes.first(*length);
    if (get_field<std::uint64_t>(bytes, kChecksumAt) != table_checksum(bytes)) return std::nullopt;
    ChunkTable table;
    table.uuid = uuid;
    table.offset = offset;
    table.table_bytes = *length;
    table.chunk = get_field<std::uint32_t>(bytes, 32);
    table.data_bytes = get_field<std::uint32_t>(bytes, 48);
    const auto count = get_field<std::uint32_t>(bytes, 36);
    if (table.data_bytes > kMaxChunkData || table.data_bytes % kDiskAlignment != 0) return std::nullopt;
    if (count > (bytes.size() - kChunkHeaderBytes) / kEntryHeaderBytes) return std::nullopt;
    table.entries.reserve(count);
    std::size_t at = kChunkHeaderBytes;
    std::uint64_t free = 0;  // of the data: behind the entries so far
    for (std::uint32_t index = 0; index < count; ++index) {
        if (bytes.size() - at < kEntryHeaderBytes) return std::nullopt;
        ChunkEntry entry;
        entry.id = {get_field<std::uint64_t>(bytes, at), get_field<std::uint64_t>(bytes, at + 8)};
        entry.object_size = get_field<std::uint64_t>(bytes, at + 16);
        entry.offset = get_field<std::uint32_t>(bytes, at + 24);
        entry.stored_length = get_field<std::uint32_t>(bytes, at + 28);
        entry.codec = get_field<std::uint8_t>(bytes, at + 32);
        const auto sums = get_field<std::uint32_t>(bytes, at + 36);
        at += kEntryHeaderBytes;
        if (sums > (bytes.size() - at) / 4) return std::nullopt;
        if (sums == 0) return std::nullopt;  // no object is empty
        entry.sums.resize(sums);
        std::memcpy(entry.sums.data(), bytes.data() + at, 4 * std::size_t{sums});
        at += 4 * std::size_t{sums};
        if (!valid_entry(entry, free, table.data_bytes)) return std::nullopt;
        free = std::uint64_t{entry.offset} + entry.stored_length;
        table.entries.push_back(std::move(entry));
    }
    return table;
}

}  // namespace tierfs
