// The cached copy of one large object: a sparse data file at the object's own offsets, and its sidecar.
// Internal to tiering/nvme.
//
// files/<first 2 hex>/<content id, 32 hex>.data   the bytes, sparse, as long as the object
// files/<first 2 hex>/<content id, 32 hex>.sums   the sidecar:
//
//   offset  size  field (little endian)
//        0     8  magic "TFSSUMS1"
//        8     4  format version, 1
//       12     4  unit, 4096: bytes that a checksum covers
//       16    16  content id (high, low)
//       32     8  object size
//       40     8  XXH3-64 of the 40 bytes before
//       48        zeros up to 4096
//     4096        checksums of the units in order, 4 bytes each (CHECKSUM of extent/format.hpp);
//                 0: the unit is absent
//
// A checksum is written after its data, so a sum that stands there names bytes that were written; what a
// power failure loses in between does not verify.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/disk/disk_file.hpp"
#include "backends/origin/object.hpp"
#include "config/base/result.hpp"

namespace tierfs {

enum class ReadOutcome { hit, absent, corrupt, failed };

/// An open backing file with its sidecar. `read` and `present` are thread-safe, also beside `write` and
/// `clear`, which are for one thread at a time. Errors: those of the device; EBADMSG when the two files do
/// not belong to each other or the sidecar is damaged.
class BackingFile {
  public:
    struct Paths {
        std::filesystem::path data, sums;
    };
    static Paths paths(const std::filesystem::path& files, const ContentId& id);
    /// The content id in the name of a data or sums file.
    static std::optional<ContentId> parse_name(std::string_view stem);

    /// Makes both files, empty of data; what lay there before is emptied.
    static Result<BackingFile> create(const std::filesystem::path& files, const ContentId& id,
                                      std::uint64_t size);
    static Result<BackingFile> open(const std::filesystem::path& files, const ContentId& id);
    /// ENOENT is success.
    static Result<void> remove(const std::filesystem::path& files, const ContentId& id);

    [[nodiscard]] std::uint64_t size() const { return size_; }

    /// Reads and verifies. `out` as in NvmeTier::read. On `corrupt`, what `out` holds is worthless.
    ReadOutcome read(std::uint64_t offset, std::span<std::byte> out) const;

    /// Whether all units of a kBlockSize block have a checksum.
    [[nodiscard]] Result<bool> present(std::uint64_t block) const;
    /// Number of present blocks, of all; reads the whole sidecar.
    [[nodiscard]] Result<std::uint64_t> count_present() const;

    /// Writes the pieces, in order, at `offset` (a multiple of kBlockSize), then their checksums.
    Result<void> write(std::uint64_t offset, std::span<const std::span<const std::byte>> pieces) const;
    /// Marks the blocks [first, first + count) absent.
    Result<void> clear(std::uint64_t first, std::uint64_t count) const;
    Result<void> sync() const { return data_.sync_data(); }

    /// Bytes that both files take on the device.
    Result<std::uint64_t> allocated() const;

  private:
    BackingFile(ContentId id, std::uint64_t size, DiskFile data, DiskFile sums)
        : id_(id), size_(size), data_(std::move(data)), sums_(std::move(sums)) {}
    Result<void> write_data(std::uint64_t offset, std::span<const std::span<const std::byte>> pieces,
                            std::uint64_t total) const;
    ReadOutcome read_part(std::uint64_t offset, std::span<std::byte> out) const;

    ContentId id_;
    std::uint64_t size_;
    DiskFile data_, sums_;
};

}  // namespace tierfs
