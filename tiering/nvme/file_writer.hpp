// Writes pieces of large objects into backing files. Internal to tiering/nvme; for the writer thread alone.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "tiering/nvme/space.hpp"

namespace tierfs {

class FileWriter {
  public:
    FileWriter(NvmeCore& core, SpaceKeeper& space) : core_(core), space_(space) {}

    /// Writes the blocks of the piece that are not here yet; after the last missing one the file is synced
    /// and recorded as complete. Faults are counted and the piece is lost.
    void write(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
               std::span<const std::span<const std::byte>> pieces, DatasetNumber dataset);

    /// Marks the blocks absent that bytes [offset, offset + length) are in.
    void drop_blocks(const ContentId& id, std::uint64_t offset, std::uint64_t length);
    /// The same for those that do not verify now: since a reader found damage they may have been written
    /// anew.
    void drop_damaged(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                      std::uint64_t length);

    /// At most so much is taken for a piece of that many bytes.
    [[nodiscard]] static std::uint64_t space_of(std::uint64_t length);

    void forget(const ContentId& id) { missing_.erase(id); }

  private:
    struct Run {
        std::uint64_t offset = 0, length = 0;
    };
    std::shared_ptr<FileHandle> open_or_create(const ContentId& id, std::uint64_t object_size,
                                               DatasetNumber dataset);
    Result<std::shared_ptr<FileHandle>> create(const ContentId& id, std::uint64_t object_size,
                                               DatasetNumber dataset);
    Result<void> write_run(const ContentId& id, const FileHandle& handle, const Run& run,
                           std::span<const std::span<const std::byte>> pieces, DatasetNumber dataset);
    void finish(const ContentId& id, const FileHandle& handle);
    std::uint64_t& missing_blocks(const ContentId& id, const BackingFile& file);

    NvmeCore& core_;
    SpaceKeeper& space_;
    /// Blocks still absent, of files written lately; counted from the sidecar when not known.
    std::unordered_map<ContentId, std::uint64_t> missing_;
};

}  // namespace tierfs
