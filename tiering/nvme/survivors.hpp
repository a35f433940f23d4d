// Often-read objects that outlive their extent. Internal to tiering/nvme; for the writer thread alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tiering/nvme/packers.hpp"
#include "tiering/policy/read_heat.hpp"

namespace tierfs {

/// S3-FIFO (policy/s3fifo.hpp) over objects, although space comes back by extents. An extent belongs to the
/// small queue or to the main one. Before it goes, what was read at least twice in it (in main: once) is
/// copied to the end of main, 3/4 of an extent at most, the hottest first; what leaves the small queue is
/// remembered (GhostTable), and packed into main at once when it comes back. Only datasets whose data goes
/// anyway (Retention::goes) are treated so: nothing else is ever written again. CacheLib's BlockCache
/// reinserts by hits in the same manner (Berg et al., OSDI 2020).
///
/// A copy is verified first. The record of an object names the old place until the copy is on the device,
/// and the new one before the old extent goes, so that readers always find it. No copies are made while the
/// device is not well, and for kLongest at most: where it is slow, hot data is rather read from the origin.
class Survivors {
  public:
    static constexpr std::chrono::milliseconds kLongest{500};

    Survivors(NvmeCore& core, Packers& packers) : core_(core), packers_(packers) {}

    /// For SpaceKeeper::on_eviction.
    void save(const Catalog::Chosen& extent);

  private:
    /// What is copied: all with more than `least` reads, and of those with `least` so many bytes.
    struct Cut {
        unsigned least = ReadHeat::kMost + 1;
        std::uint64_t bytes = 0;
    };
    /// Of one extent that goes.
    struct Move {
        const Catalog::Chosen& extent;
        const DiskFile& file;
        Packer& target;
        Cut cut;
        Health::Clock::time_point deadline;
        AlignedBuffer buffer;
        bool ended = false;
    };
    using Entries = std::span<const ChunkEntry* const>;

    [[nodiscard]] bool may_move(const Catalog::Chosen& extent) const;
    [[nodiscard]] Result<Cut> census(const Catalog::Chosen& extent, const DiskFile& file) const;
    [[nodiscard]] bool is_chosen(const ChunkEntry& entry, Cut& cut) const;
    [[nodiscard]] bool is_current(const Catalog::Chosen& extent, const ChunkTable& table,
                                  const ChunkEntry& entry);
    void move_chunk(Move& move, const ChunkTable& table);
    /// Entries that lie close together, with one read.
    void move_run(Move& move, const ChunkTable& table, Entries entries);
    [[nodiscard]] bool verifies(const ChunkEntry& entry, std::span<const std::byte> bytes);

    NvmeCore& core_;
    Packers& packers_;
    bool moving_ = false;
};

}  // namespace tierfs
