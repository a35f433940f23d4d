// L records: where the NVMe tier keeps an object. Internal to tiering/nvme.
//
// LAYOUT (little endian), version 2, and 3 for compressed entries. A record of an unknown version or codec,
// or of a wrong length, is no record.
//
//   offset  size  field
//        0     1  version, 2 or 3
//        1     1  kind: 1 extent entry, 2 backing file
//        2     1  codec (format.hpp): 0 in version 2, another in version 3
//        3     1  flags: 1 = complete (backing file: every block is present and synced)
//        4     4  number of checksums that follow (extent entry), else 0
//        8     8  object size
//       16     8  number of the extent, else 0
//       24     8  low half of the extent's uuid, else 0
//       32     8  offset of the stored bytes in the extent file, else 0
//       40     8  device: the id that stands on it (device_id.hpp)
//       48     4  version 3 alone: stored length
//       then      checksums of 32 KiB of stored bytes each (format.hpp), 4 bytes each
//
// An older tierfs takes version 3 for no record: it fetches the object again, and never misreads it.
// Version 1 had no device, and its checksums at 40. Its records are read: the extent's tag, or the name of
// the backing file, says whether a device is meant.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/extent/format.hpp"
#include "backends/origin/object.hpp"
#include "config/base/codec.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

/// A decoded L record. A plain value without memory of its own.
struct Location {
    enum class Kind : std::uint8_t { extent_entry = 1, backing_file = 2 };
    static constexpr std::size_t kMaxSums = kMaxPackedObject / kExtentUnit;

    Kind kind = Kind::extent_entry;
    bool complete = false;     ///< backing files
    std::uint64_t device = 0;  ///< its id; 0: not known, the record is of version 1
    Codec codec = Codec::none;
    std::uint32_t stored_length = 0;  ///< of an extent's entry; of one without a codec the object's size
    std::uint64_t object_size = 0;
    std::uint64_t extent = 0;
    std::uint64_t extent_tag = 0;  ///< low half of its uuid
    std::uint64_t offset = 0;      ///< in the extent file
    std::uint32_t sum_count = 0;
    std::array<std::uint32_t, kMaxSums> sums{};

    [[nodiscard]] std::string encode() const;
    static std::optional<Location> decode(std::string_view text);
    /// `entry` has a codec that is known here.
    static Location of_entry(std::uint64_t device, std::uint64_t extent, const ChunkTable& table,
                             const ChunkEntry& entry);

    friend bool operator==(const Location&, const Location&) = default;

  private:
    [[nodiscard]] bool is_sane_entry() const;
};

/// Recently used locations: 4,096 of them in about 0.9 MiB, allocated once. Eight ways a set, the least
/// recently used way goes. Thread-safe. An entry may be stale (it names an extent that is gone); who finds
/// that out calls `forget`.
class LocationCache {
  public:
    LocationCache();
    bool find(const ContentId& id, Location& out);
    void put(const ContentId& id, const Location& location);
    void forget(const ContentId& id);

  private:
    static constexpr std::size_t kShards = 32, kSets = 16, kWays = 8;
    struct Slot {
        ContentId id;
        std::uint64_t used = 0;  ///< tick of the last use; 0: empty
        Location location;
    };
    struct Shard {
        Mutex mutex;
        std::uint64_t tick TIERFS_GUARDED_BY(mutex) = 0;
        std::array<std::array<Slot, kWays>, kSets> sets TIERFS_GUARDED_BY(mutex);
    };

    std::unique_ptr<std::array<Shard, kShards>> shards_;
};

}  // namespace tierfs
