#include "tiering/nvme/location.hpp"

#include <algorithm>

namespace tierfs {
namespace {

constexpr std::uint8_t kRecordVersion = 2, kPackedRecordVersion = 3;
constexpr std::size_t kRecordBytes = 48, kPackedRecordBytes = 52;
constexpr std::size_t kFirstRecordBytes = 40;  ///< of version 1
/// Far above any extent: a record that says more is damaged.
constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 32;

/// Before the checksums; 0 for an unknown version.
constexpr std::size_t fixed_bytes(std::uint8_t version) {
    return version == 1                      ? kFirstRecordBytes
           : version == kRecordVersion       ? kRecordBytes
           : version == kPackedRecordVersion ? kPackedRecordBytes
                                             : 0;
}

}  // namespace

std::string Location::encode() const {
    const bool packed = codec != Codec::none;
    const std::size_t fixed = packed ? kPackedRecordBytes : kRecordBytes;
    std::string text(fixed + 4 * std::size_t{sum_count}, '\0');
    const auto bytes = std::as_writable_bytes(std::span(text));
    put_field(bytes, 0, packed ? kPackedRecordVersion : kRecordVersion);
    put_field(bytes, 1, kind);
    put_field(bytes, 2, codec);
    put_field(bytes, 3, static_cast<std::uint8_t>(complete ? 1 : 0));
    put_field(bytes, 4, sum_count);
    put_field(bytes, 8, object_size);
    put_field(bytes, 16, extent);
    put_field(bytes, 24, extent_tag);
    put_field(bytes, 32, offset);
    put_field(bytes, 40, device);
    if (packed) put_field(bytes, 48, stored_length);
    std::memcpy(text.data() + fixed, sums.data(), 4 * std::size_t{sum_count});
    return text;
}

std::optional<Location> Location::decode(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    if (bytes.empty()) return std::nullopt;
    const auto version = get_field<std::uint8_t>(bytes, 0);
    const std::size_t fixed = fixed_bytes(version);
    if (fixed == 0 || bytes.size() < fixed) return std::nullopt;
    const auto kind = get_field<std::uint8_t>(bytes, 1);
    const auto codec = codec_of(get_field<std::uint8_t>(bytes, 2));
    const bool packed = version == kPackedRecordVersion;
    if ((kind != 1 && kind != 2) || !codec || packed != (*codec != Codec::none)) return std::nullopt;
    Location location;
    location.kind = static_cast<Kind>(kind);
    location.codec = *codec;
    location.complete = (get_field<std::uint8_t>(bytes, 3) & 1U) != 0;
    location.sum_count = get_field<std::uint32_t>(bytes, 4);
    location.object_size = get_field<std::uint64_t>(bytes, 8);
    location.extent = get_field<std::uint64_t>(bytes, 16);
    location.extent_tag = get_field<std::uint64_t>(bytes, 24);
    location.offset = get_field<std::uint64_t>(bytes, 32);
    if (version != 1) location.device = get_field<std::uint64_t>(bytes, 40);
    if (packed) {
        location.stored_length = get_field<std::uint32_t>(bytes, 48);
    } else if (location.kind == Kind::extent_entry) {
        location.stored_length = static_cast<std::uint32_t>(location.object_size);
    }
    if (location.object_size == 0 || location.sum_count > kMaxSums ||
        bytes.size() != fixed + 4 * std::size_t{location.sum_count} || !location.is_sane_entry()) {
        return std::nullopt;
    }
    std::memcpy(location.sums.data(), bytes.data() + fixed, 4 * std::size_t{location.sum_count});
    return location;
}

bool Location::is_sane_entry() const {
    if (kind != Kind::extent_entry) return codec == Codec::none;
    if (codec != Codec::none && (stored_length == 0 || stored_length >= object_size)) return false;
    return object_size <= kMaxPackedObject && offset <= kMaxOffset &&
           sum_count == unit_count(stored_length, kExtentUnit);
}

Location Location::of_entry(std::uint64_t device, std::uint64_t extent, const ChunkTable& table,
                            const ChunkEntry& entry) {
    Location location;
    location.device = device;
    location.kind = Kind::extent_entry;
    location.codec = codec_of(entry.codec).value_or(Codec::none);
    location.stored_length = entry.stored_length;
    location.object_size = entry.object_size;
    location.extent = extent;
    location.extent_tag = table.uuid.low;
    location.offset = table.data_offset() + entry.offset;
    location.sum_count = static_cast<std::uint32_t>(std::min(entry.sums.size(), kMaxSums));
    std::copy_n(entry.sums.begin(), location.sum_count, location.sums.begin());
    return location;
}

LocationCache::LocationCache() : shards_(std::make_unique<std::array<Shard, kShards>>()) {}

bool LocationCache::find(const ContentId& id, Location& out) {
    Shard& shard = (*shards_)[id.low % kShards];
    MutexLock lock(shard.mutex);
    for (Slot& slot : shard.sets[(id.low / kShards) % kSets]) {
        if (slot.used != 0 && slot.id == id) {
            slot.used = ++shard.tick;
            out = slot.location;
            return true;
        }
    }
    return false;
}

void LocationCache::put(const ContentId& id, const Location& location) {
    Shard& shard = (*shards_)[id.low % kShards];
    MutexLock lock(shard.mutex);
    auto& set = shard.sets[(id.low / kShards) % kSets];
    Slot* target = &set[0];
    for (Slot& slot : set) {
        if (slot.used != 0 && slot.id == id) {
            target = &slot;
            break;
        }
        if (slot.used < target->used) target = &slot;
    }
    *target = Slot{id, ++shard.tick, location};
}

void LocationCache::forget(const ContentId& id) {
    Shard& shard = (*shards_)[id.low % kShards];
    MutexLock lock(shard.mutex);
    for (Slot& slot : shard.sets[(id.low / kShards) % kSets]) {
        if (slot.id == id) slot.used = 0;
    }
}

}  // namespace tierfs
