// The NVMe tier of one source, on one device or several: small objects packed in extents, large ones in
// backing files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/extent/format.hpp"
#include "backends/origin/object.hpp"
#include "config/base/codec.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "tiering/policy/tier_shares.hpp"
#include "tiering/values/buffer.hpp"
#include "tiering/values/read_reply.hpp"
#include "tiering/values/tier_stats.hpp"

namespace tierfs {

class Index;

/// The folder of one source on one device; `lock`, if any, keeps others out of it as long as it lives.
struct NvmeFolder {
    std::filesystem::path path;  ///< exists, mode 0700; extents/, files/ and the file "device" are made in it
    std::shared_ptr<const void> lock;
};

/// One device, as it is configured.
struct NvmePlace {
    std::string name;  ///< as in nvme.path; for status and messages
    std::function<Result<NvmeFolder>()> open;

    /// A folder that exists, without a lock.
    static NvmePlace at(const std::filesystem::path& folder);
};

struct NvmeOptions {
    std::vector<NvmePlace> devices;
    /// Bytes on all devices together, enforced by eviction; at least 16 MiB for each. 0: 80 % of what each
    /// could give, its free space and what the folder holds. It is divided by just that: what each could
    /// give.
    std::uint64_t limit = 0;
    /// Bytes of each device's file system that stay free: while others fill it, the tier gives way, whatever
    /// it keeps, and comes back when they go. 0: it only does not fill the last bit itself.
    std::uint64_t keep_free = 0;
    std::uint64_t pack_max_object = 1 << 20;
    /// Data that may wait to be written while the devices stall; without a stall, the caller's memory alone
    /// bounds it.
    std::uint64_t stalled_queue = 64 << 20;
};

/// Small objects that lie in one buffer as they are to lie in an extent (backends/extent/format.hpp).
struct PackedObjects {
    BufferPtr data;                   ///< a multiple of 4 KiB
    std::vector<ChunkEntry> entries;  ///< in the order of their bytes; offsets count from the buffer's start
};

/// Thread-safe. `read` blocks for the device; `admit` does not block. Everything read is verified by content
/// id and checksum; what does not verify is counted, dropped, and is a miss. Faults of a device (ENOSPC,
/// EIO, EROFS) make it read-only or empty (state "unstable", "down"), never the caller fail. Locations stand
/// in the Index (record L), which must outlive the tier.
///
/// An object lies on one device: a large one where most is free when it comes, small ones spread by the
/// limits. Records name a device by the id that stands on it, so that folders may be given in any order. What
/// lies on a device that is not there is a miss, and may come to lie on another; when the device is back,
/// either copy serves, since a content id stands for the same bytes for ever.
class NvmeTier {
  public:
    /// Opens or makes the tier; usable at once, without a scan, also after a kill. Extents that the index
    /// does not know (index lost) are taken in from their chunk tables. A device that cannot be opened is
    /// left out, which the log and stats() say. Errors: no device can be opened; the limit is too small.
    static Result<std::unique_ptr<NvmeTier>> open(const NvmeOptions& options, Index& index);
    virtual ~NvmeTier() = default;

    /// Reads [offset, offset + out.size()) of an object if all of it is here and verifies; false: a miss
    /// (whole). `offset` is a multiple of kBlockSize and the range ends on a block's or the object's end;
    /// with backing files, multiples of kSidecarUnit will do within a block.
    /// `out` is 4 KiB-aligned and its memory is valid up to the next multiple of 4 KiB (direct I/O writes
    /// there).
    virtual bool read(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                      std::span<std::byte> out) = 0;

    /// Whether a block is here (not verified); cheap, memory or index only.
    [[nodiscard]] virtual bool contains(const ContentId& id, std::uint64_t object_size,
                                        std::uint64_t block) = 0;

    /// The backing file of a whole object, for readers beside the tier (who verify nothing). Nothing while
    /// some of it is missing, and until all of it has been verified once since it was written: a file of an
    /// earlier session is verified in the background from the first call on. Opens the file; does not wait.
    virtual std::optional<WholeFile> whole_file(const ContentId& id, std::uint64_t object_size) = 0;

    /// For a file that the kernel has open since an earlier run: as WholeFile::pin, verified or not. Where it
    /// is here no more (the kernel keeps it nevertheless), `bytes` of it count against the limit meanwhile.
    virtual std::shared_ptr<const void> hold(const ContentId& id, std::uint64_t bytes) = 0;

    /// Whether a small object lies here compressed: reading a part of it costs as much as all of it. Cheap.
    [[nodiscard]] virtual bool is_compressed(const ContentId& id, std::uint64_t object_size) = 0;

    /// Where compressed objects are read into (tiering/nvme/scratch.hpp): memory of at least so many bytes,
    /// aligned to 4 KiB, or null. Called from any thread until the tier ends. Without it one object at a time
    /// is decompressed.
    virtual void use_memory(std::function<BufferPtr(std::size_t)> source) = 0;

    /// Takes a piece of an object for writing in the background. A small object (up to pack_max_object) comes
    /// whole: `offset` 0 and all its bytes; a large one in pieces aligned as in `read`. Holding `data` until
    /// it is written is the back-pressure: it counts in the caller's data memory. What is here already is
    /// skipped. A small object is stored compressed if `codec` saves 12 % of its place.
    virtual void admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset, BufferPtr data,
                       DatasetNumber dataset = 0, Codec codec = Codec::none) = 0;

    /// As above for a piece that spans several buffers: all of [offset, ...) in order.
    virtual void admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                       std::vector<BufferPtr> data, DatasetNumber dataset = 0, Codec codec = Codec::none) = 0;

    /// As above for many small objects at once, which are written just as they lie there, compressed or not.
    /// The caller has verified their checksums. Those that are larger than the tier packs are left out.
    virtual void admit_packed(PackedObjects objects, DatasetNumber dataset) = 0;

    /// What a full tier does with a dataset's data (TierShares): whose units (extents, files) may go for
    /// whose, by fair shares. Of what it keeps, units that were not read since `renew` go for new data of the
    /// same dataset. Does not hold for what a lowered limit or a full device makes go. Of kUnknownDataset:
    /// goes, or pinned while some of what an earlier run left may turn out to be.
    virtual void retain(DatasetNumber dataset, Retention retention) = 0;
    /// Of the only dataset.
    void keep(bool kept) { retain(0, kept ? Retention::stays : Retention::goes); }
    virtual void renew(DatasetNumber dataset = 0) = 0;

    /// An object of this dataset was read: what an earlier run left belongs to who reads it first. Cheap when
    /// there is nothing left of that kind.
    virtual void claim(const ContentId& id, DatasetNumber dataset) = 0;

    /// Whether what is here of an object lies with this dataset's data, or comes to: a file of its own
    /// changes its dataset, an extent only when it is `from`'s. False: nothing is here, or it shares an
    /// extent of others, and `admit` for a dataset that is pinned writes it again. Cheap, memory or index
    /// only.
    virtual bool take_over(const ContentId& id, std::uint64_t object_size, DatasetNumber dataset,
                           DatasetNumber from) = 0;
    /// What this dataset has here is nobody's from now on, as if an earlier run had left it. An extent that
    /// is being written follows when what is queued is written, unless the dataset is pinned then.
    virtual void disown(DatasetNumber dataset) = 0;
    [[nodiscard]] virtual std::uint64_t used_by(DatasetNumber dataset) const = 0;

    /// Whether `admit` of such a piece has a chance, behind `coming` bytes that are to be admitted before it; cheap:
    /// memory, and of a dataset that is kept what the file system says is free.
    [[nodiscard]] virtual bool takes(std::uint64_t object_size, std::uint64_t length,
                                     DatasetNumber dataset = 0, std::uint64_t coming = 0) const = 0;

    /// To be called about once a second: when the device has been busy with one thing for two seconds, what
    /// waits beyond stalled_queue is dropped and counted, so that readers find memory.
    virtual void relieve() = 0;

    /// Writes out everything admitted so far, partial chunks too; blocks. Called before a clean stop.
    virtual void flush() = 0;

    /// Forgets an object (its version is gone at the origin). Space comes back with its extent's eviction.
    virtual void erase(const ContentId& id) = 0;

    [[nodiscard]] virtual TierStats stats() const = 0;
    [[nodiscard]] virtual std::uint64_t checksum_errors() const = 0;

    /// Stops the writer after a flush; idempotent.
    virtual void close() = 0;
};

}  // namespace tierfs
