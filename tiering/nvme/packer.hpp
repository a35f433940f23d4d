// Writes small objects into extents. Internal to tiering/nvme; for the writer thread alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "backends/extent/chunk_writer.hpp"
#include "tiering/nvme/space.hpp"

namespace tierfs {

/// Of one dataset: an extent holds no others. Of a dataset that is evicted object by object (Survivors) there
/// are two: `main` for what was read often.
class Packer {
  public:
    /// `next_number`: of the tier's next extent.
    Packer(NvmeCore& core, SpaceKeeper& space, std::uint64_t& next_number, DatasetNumber dataset, bool main)
        : core_(core), space_(space), next_number_(next_number), dataset_(dataset), main_(main) {}

    /// Takes a copy of a whole object (at most NvmeCore::max_packed bytes), compressed or not, into the chunk
    /// under way.
    void add(const ContentId& id, std::span<const std::span<const std::byte>> pieces, StoredAs as);

    /// The same for an object that moves here from an extent that goes: only into room that is free, since
    /// making some would take another extent meanwhile. False: there is none.
    bool add_moved(const ContentId& id, std::span<const std::byte> bytes, StoredAs as);

    /// Writes objects that lie side by side in `data` as chunks of their own, beside the one under way, and
    /// their L records. Memory and offsets as in PackedObjects. What there is no room for is left out.
    void add_packed(std::span<const std::byte> data, std::span<const ChunkEntry> entries);

    /// It is making room for its own extent.
    [[nodiscard]] bool is_flushing() const { return flushing_; }
    [[nodiscard]] bool holds(const ContentId& id) const { return chunk_.holds(id); }
    /// When the chunk under way wants to be written; nothing while it is empty.
    [[nodiscard]] std::optional<Health::Clock::time_point> deadline() const;

    /// Writes the chunk under way: data first, then its L records. On a fault of either the chunk is
    /// lost, and so is its place: its extent is closed before it.
    void flush();

    /// Flushes, and gives the unused end of the extent back.
    void seal();

  private:
    struct Active {
        std::uint64_t number = 0;
        ExtentUuid uuid;
        std::shared_ptr<ExtentHandle> handle;
        std::uint64_t end = 0;  ///< where the next chunk goes
        std::uint32_t chunks = 0;
    };
    [[nodiscard]] std::uint64_t room() const;
    /// False: there is no extent for another chunk, and may be none.
    bool has_extent();
    bool start_chunk();
    /// Objects that become one chunk.
    struct Slice {
        std::size_t count = 0;    ///< 0: not even the first fits
        std::uint64_t begin = 0;  ///< of the chunk's data, in the memory that they lie in
        std::uint32_t data_bytes = 0;
        std::size_t encoded = 0;  ///< bytes of the table's entries
    };
    static Slice first_slice(std::span<const ChunkEntry> entries, std::uint64_t room);
    void write_slice(const Slice& slice, std::span<const std::byte> data,
                     std::span<const ChunkEntry> entries);
    bool try_moved(const ContentId& id, std::span<const std::byte> bytes, StoredAs as);
    /// A chunk made for the place where it goes: table and data, one after the other.
    struct Chunk {
        const ChunkTable* table = nullptr;
        std::span<const std::byte> front, back;  ///< `back` may be empty
    };
    using Finish = std::function<Chunk(const Active&)>;
    void write_and_commit(const Finish& finish, std::uint64_t moved_bytes);
    Result<void> create_extent();
    Result<const ChunkTable*> write_chunk(const Finish& finish);
    Result<void> commit_chunk(const ChunkTable& table, std::uint64_t moved_bytes);
    void retire();

    NvmeCore& core_;
    SpaceKeeper& space_;
    std::uint64_t& next_number_;
    const DatasetNumber dataset_;
    const bool main_;
    std::optional<Active> active_;
    ChunkWriter chunk_;
    AlignedBuffer slice_table_;      ///< made with the first slice
    std::uint64_t moved_bytes_ = 0;  ///< of those in the chunk
    bool flushing_ = false;
    Health::Clock::time_point first_entry_;
};

}  // namespace tierfs
