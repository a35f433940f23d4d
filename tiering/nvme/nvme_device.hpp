// One device of the NVMe tier. Internal to tiering/nvme.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tiering/nvme/failed_reads.hpp"
#include "tiering/nvme/file_checker.hpp"
#include "tiering/nvme/nvme_core.hpp"
#include "tiering/nvme/read_watch.hpp"
#include "tiering/nvme/writer.hpp"

namespace tierfs {

/// Extents and backing files in one folder, with a lock, a limit, a writer thread and a health of their own.
/// Thread-safe. `read` blocks for the device, `admit` and the questions do not, flush, close and abandon wait
/// for the writer. Contracts as in NvmeTier.
class NvmeDevice {
  public:
    /// Takes over what lies in the folder. EBUSY: another process has it. Else errors of the folder.
    static Result<std::unique_ptr<NvmeDevice>> open(NvmeFolder folder, const NvmeDeviceOptions& options,
                                                    const NvmeHooks& hooks, NvmeShared& shared);

    /// `location` is what the index, or its cache, says of the object; it names this device.
    bool read(const ContentId& id, const Location& location, std::uint64_t offset, std::span<std::byte> out);
    bool contains(const ContentId& id, const Location& location, std::uint64_t block);
    /// The same of an object that waits to be written: no record names it yet.
    bool read_unwritten(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                        std::span<std::byte> out);
    [[nodiscard]] std::optional<Codec> find_unwritten(const ContentId& id, std::uint64_t object_size) const {
        return core_.unwritten.find(id, object_size);
    }
    std::optional<WholeFile> whole_file(const ContentId& id, const Location& location);
    /// NvmeTier::hold: of a file that is here (else null), and of one that is not.
    std::shared_ptr<const void> pin_file(const ContentId& id);
    std::shared_ptr<const void> owe(std::uint64_t bytes);
    /// Whether there is an extent or a file for this location, by memory alone.
    [[nodiscard]] bool holds(const ContentId& id, const Location& location) const;

    void admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
               std::vector<BufferPtr> data, DatasetNumber dataset, Codec codec) {
        core_.catalog.shares().ask(dataset);
        writer_->admit(id, object_size, offset, std::move(data), dataset, codec);
    }
    void admit_packed(PackedObjects objects, DatasetNumber dataset) {
        core_.catalog.shares().ask(dataset);
        writer_->admit_packed(std::move(objects), dataset);
    }
    [[nodiscard]] bool takes(std::uint64_t object_size, std::uint64_t length, DatasetNumber dataset,
                             std::uint64_t coming = 0) const {
        return writer_->takes(object_size, length, dataset, coming);
    }
    /// Bytes under the limit that are neither used nor about to be.
    [[nodiscard]] std::uint64_t free_bytes() const;
    void retain(DatasetNumber dataset, Retention retention) { core_.catalog.retain(dataset, retention); }
    void renew(DatasetNumber dataset) { core_.catalog.renew(dataset); }
    [[nodiscard]] bool has_unclaimed() const { return core_.catalog.has_unclaimed(); }
    void claim(const ContentId& id, const Location& location, DatasetNumber dataset);
    bool take_over(const ContentId& id, const Location& location, DatasetNumber dataset, DatasetNumber from);
    void disown(DatasetNumber dataset) {
        core_.catalog.disown(dataset);
        writer_->disown(dataset);
    }
    [[nodiscard]] std::uint64_t used_by(DatasetNumber dataset) const {
        return core_.catalog.shares().used(dataset);
    }
    void relieve() { writer_->relieve(); }
    void flush() { writer_->flush(); }
    void erase(const ContentId& id) { writer_->erase(id); }
    void close() {
        checker_.stop();
        writer_->close();
    }
    void abandon() {
        checker_.stop();
        writer_->abandon();
    }

    /// Looks whether reads and writes come back, and how fast, and says so to `health`. For one thread.
    void look();
    [[nodiscard]] const Health& health() const { return core_.health; }
    /// What ends an unstable state.
    void recovered(const std::string& reason) { core_.recovered(reason); }
    void give_up(const std::string& reason) { core_.give_up(reason); }
    void set_limit(std::uint64_t limit) {
        most_ = limit;
        apply_limit(limit);
    }
    /// NvmeOptions::keep_free: looks how much is free, and lowers or raises the limit. For one thread, like
    /// `look`; what has to go goes on the writer's.
    void give_way();
    /// Bytes that it could hold: what is free and what it has.
    [[nodiscard]] Result<std::uint64_t> capacity() const;

    [[nodiscard]] std::uint64_t id() const { return core_.device_id; }
    [[nodiscard]] std::uint64_t limit() const { return core_.limit; }
    [[nodiscard]] std::uint64_t max_packed() const { return core_.max_packed; }
    [[nodiscard]] TierStats stats() const;
    [[nodiscard]] std::uint64_t checksum_errors() const { return core_.counters.checksum_errors; }

  private:
    class Waiting;
    /// A write of a chunk or a piece takes less than this on any disk that works.
    static constexpr std::chrono::seconds kStalledWrite{10};

    NvmeDevice(NvmeFolder folder, const NvmeDeviceOptions& options, std::uint64_t id, const NvmeHooks& hooks,
               NvmeShared& shared)
        : folder_(std::move(folder)),
          core_(options, id, hooks, shared),
          most_(options.limit),
          checker_([this](const auto& file, const auto& stopping) { check_file(file, stopping); }) {}
    Result<void> start();
    void apply_limit(std::uint64_t limit) {
        core_.limit = limit;
        core_.catalog.shares().set_limit(limit);
    }
    ReadOutcome read_located(const ContentId& id, const Location& location, std::uint64_t offset,
                             std::span<std::byte> out);
    ReadOutcome read_entry(const ContentId& id, const Location& location, std::uint64_t offset,
                           std::span<std::byte> out);
    /// [offset, offset + out.size()) of the entry's stored bytes.
    ReadOutcome read_stored(const DiskFile& file, const ContentId& id, const Location& location,
                            std::uint64_t offset, std::span<std::byte> out);
    ReadOutcome decompress_entry(const DiskFile& file, const ContentId& id, const Location& location,
                                 std::uint64_t offset, std::span<std::byte> out);
    ReadOutcome read_file(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                          std::span<std::byte> out);
    void check_file(const FileChecker::File& file, const std::function<bool()>& stopping);

    NvmeFolder folder_;
    FileDescriptor lock_;  ///< of extents/: one daemon at a time
    NvmeCore core_;
    FailedReads failed_reads_;
    ReadWatch watch_;
    std::atomic<std::uint64_t> most_;  ///< the limit while nobody else needs the device
    std::unique_ptr<NvmeWriter> writer_;
    FileChecker checker_;  ///< last: its thread uses all of the above
};

}  // namespace tierfs
