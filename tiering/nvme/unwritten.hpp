// Small objects on their way to the device. Internal to tiering/nvme.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "backends/extent/chunk_writer.hpp"
#include "config/base/mutex.hpp"
#include "tiering/nvme/scratch.hpp"

namespace tierfs {

/// Where an object can be read between NvmeTier::admit and the commit of its record: from the buffers that
/// wait in the writer's queue, then from the chunk under way. RAM may have given it up by then, and without
/// this it would be fetched twice. Costs no memory but a table: what is named here is held by the queue and
/// the chunk anyway. Pieces of large objects are not named: they can be read as soon as they are written.
///
/// Thread-safe; copies from the chunk are made under the lock, which is never held for the device.
class Unwritten {
  public:
    /// It waits in the queue, as it is, in these pieces. One that is known already stays where it was.
    void queued(const ContentId& id, const std::vector<BufferPtr>& pieces) TIERFS_EXCLUDES(mutex_);
    /// It lies in a chunk: `stored` must stay until `gone`.
    void packed(const ContentId& id, std::span<const std::byte> stored, StoredAs as) TIERFS_EXCLUDES(mutex_);
    /// It waits in the queue, in the form that it is to be written in: `stored` must stay until `returned`
    /// with the same. One that is known already stays where it was.
    void lent(const ContentId& id, std::span<const std::byte> stored, StoredAs as) TIERFS_EXCLUDES(mutex_);
    void returned(const ContentId& id, std::span<const std::byte> stored) TIERFS_EXCLUDES(mutex_);
    /// It has left the queue: forgotten unless it came to lie in a chunk.
    void unqueued(const ContentId& id) TIERFS_EXCLUDES(mutex_);
    /// It is in the index, or lost.
    void gone(const ContentId& id) TIERFS_EXCLUDES(mutex_);
    void clear() TIERFS_EXCLUDES(mutex_);

    /// In which form it is here; nothing: it is not.
    [[nodiscard]] std::optional<Codec> find(const ContentId& id, std::uint64_t object_size) const
        TIERFS_EXCLUDES(mutex_);
    /// Copies [offset, offset + out.size()) of the object, which must lie within it; false: it is not here.
    bool read(const ContentId& id, std::uint64_t object_size, std::uint64_t offset, std::span<std::byte> out,
              Scratch& scratch) const TIERFS_EXCLUDES(mutex_);

  private:
    struct Place {
        std::uint64_t object_size = 0;
        std::vector<BufferPtr> pieces;      ///< in the queue
        std::span<const std::byte> stored;  ///< in a chunk, unless empty
        Codec codec = Codec::none;          ///< of `stored`
    };
    static Place place_of(std::span<const std::byte> stored, StoredAs as);
    const Place* place(const ContentId& id, std::uint64_t object_size) const TIERFS_REQUIRES(mutex_);
    bool read_compressed(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                         std::span<std::byte> out, Scratch& scratch) const TIERFS_EXCLUDES(mutex_);

    mutable Mutex mutex_;
    std::unordered_map<ContentId, Place> places_ TIERFS_GUARDED_BY(mutex_);
    std::atomic<bool> empty_{true};  ///< as nearly always: then nobody need take the lock
};

}  // namespace tierfs
