#include "tiering/nvme/nvme_tier.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cstring>

#include "config/fault_point.hpp"
#include "config/log.hpp"
#include "config/sync_point.hpp"
#include "tiering/nvme/failed_reads.hpp"
#include "tiering/nvme/nvme_core.hpp"
#include "tiering/nvme/writer.hpp"

namespace tierfs {
namespace {

constexpr std::uint64_t kLeastLimit = 16 << 20;

class NvmeTierImpl final : public NvmeTierForTests {
  public:
    NvmeTierImpl(const NvmeOptions& options, Index& index, NvmeHooks hooks)
        : core_(options, std::move(hooks), index) {}

    Result<void> start();

    bool read(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
              std::span<std::byte> out) override;
    bool contains(const ContentId& id, std::uint64_t object_size, std::uint64_t block) override;
    void admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
               BufferPtr data) override {
        std::vector<BufferPtr> one;
        one.push_back(std::move(data));
        writer_->admit(id, object_size, offset, std::move(one));
    }
    void admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
               std::vector<BufferPtr> data) override {
        writer_->admit(id, object_size, offset, std::move(data));
    }
    void keep(bool kept) override { core_.catalog.keep(kept); }
    void renew() override { core_.catalog.renew(); }
    bool takes(std::uint64_t object_size, std::uint64_t length) const override {
        return writer_->takes(object_size, length);
    }
    void flush() override { writer_->flush(); }
    void erase(const ContentId& id) override { writer_->erase(id); }
    TierStats stats() const override;
    std::uint64_t checksum_errors() const override { return core_.counters.checksum_errors; }
    void relieve() override { writer_->relieve(); }
    void close() override { writer_->close(); }
    void abandon() override { writer_->abandon(); }

  private:
    ReadOutcome read_located(const ContentId& id, const Location& location, std::uint64_t offset,
                             std::span<std::byte> out);
    ReadOutcome read_entry(const ContentId& id, const Location& location, std::uint64_t offset,
                           std::span<std::byte> out);
    ReadOutcome read_file(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                          std::span<std::byte> out);

    FileDescriptor lock_;  ///< of extents/: one daemon at a time
    NvmeCore core_;
    FailedReads failed_reads_;
    std::unique_ptr<NvmeWriter> writer_;
};

Result<void> NvmeTierImpl::start() {
    if (auto made = make_folders(core_); !made) return made;
    const auto& path = core_.catalog.extents_dir();
    lock_.reset(
        TIERFS_FAULT_CALL("nvme.lock.open", ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    if (!lock_) return fail(system_error(errno, path.native()));
    if (TIERFS_FAULT_CALL("nvme.lock.take", ::flock(lock_.get(), LOCK_EX | LOCK_NB)) != 0) {
        if (errno != EWOULDBLOCK) return fail(system_error(errno, path.native() + ": lock"));
        return fail(EBUSY, path.native() + ": another tierfs uses this cache; give each its own folder");
    }
    auto found = find_units(core_);
    if (!found) return fail(found.error());
    writer_ = std::make_unique<NvmeWriter>(core_, std::move(*found));
    return {};
}

bool NvmeTierImpl::read(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                        std::span<std::byte> out) {
    Location location;
    const bool sane = !out.empty() && offset % kBlockSize == 0 && offset <= object_size &&
                      out.size() <= object_size - offset;
    if (!sane || !core_.health.may_read() || !core_.locate(id, location) ||
        location.object_size != object_size) {
        ++core_.counters.misses;
        return false;
    }
    TIERFS_SYNC_POINT("nvme.read.located");
    ReadOutcome outcome = ReadOutcome::failed;
    if (is_aligned(out.data())) {
        outcome = read_located(id, location, offset, out);
    } else {
        AlignedBuffer bounce(out.size());
        outcome = read_located(id, location, offset, bounce.span().first(out.size()));
        if (outcome == ReadOutcome::hit) std::memcpy(out.data(), bounce.data(), out.size());
    }
    ++(outcome == ReadOutcome::hit ? core_.counters.hits : core_.counters.misses);
    return outcome == ReadOutcome::hit;
}

ReadOutcome NvmeTierImpl::read_located(const ContentId& id, const Location& location, std::uint64_t offset,
                                       std::span<std::byte> out) {
    const bool entry = location.kind == Location::Kind::extent_entry;
    const ReadOutcome outcome =
        entry ? read_entry(id, location, offset, out) : read_file(id, location.object_size, offset, out);
    if (outcome == ReadOutcome::corrupt) {
        ++core_.counters.checksum_errors;
        log::warning("NVMe tier " + core_.options.directory.native() + ": object " + to_string(id) +
                     " does not verify; it will be fetched again");
    }
    bool unreadable = false;
    if (outcome == ReadOutcome::hit) {
        failed_reads_.succeeded(id, offset);
    } else if (outcome == ReadOutcome::failed) {
        unreadable = failed_reads_.failed(id, offset);
    }
    const bool gone = outcome == ReadOutcome::absent &&
                      (entry ? !core_.catalog.has_extent(location.extent, location.extent_tag)
                             : !core_.catalog.has_file(id));
    if (gone || unreadable || outcome == ReadOutcome::corrupt) {
        core_.locations.forget(id);
        writer_->distrust(id, location, offset, out.size());
    }
    return outcome;
}

ReadOutcome NvmeTierImpl::read_entry(const ContentId& id, const Location& location, std::uint64_t offset,
                                     std::span<std::byte> out) {
    Catalog::Lookup lookup;
    const auto handle = core_.catalog.extent(location.extent, location.extent_tag, lookup);
    if (!handle) {
        // A file that is in the catalog and not in the folder was taken away from outside.
        if (lookup.error == ENOENT) return ReadOutcome::corrupt;
        if (lookup.error != 0) core_.read_failed(lookup.error);
        return ReadOutcome::absent;
    }
    if (core_.hooks.after_lookup) core_.hooks.after_lookup();
    TIERFS_SYNC_POINT("nvme.read.opened");
    // A small entry lies inside one sector: the sector goes where the reader wants the entry, whose memory
    // reaches as far, and the entry is moved to its front.
    const std::uint64_t start = location.offset + offset;
    const std::uint64_t skip = start % kDiskAlignment;
    if (skip != 0 && skip + out.size() > kDiskAlignment) return ReadOutcome::corrupt;
    const std::span<std::byte> sectors(out.data(), align_up(skip + out.size()));
    if (const int code = core_.fault(DiskOperation::read); code != 0) {
        core_.read_failed(code);
        return ReadOutcome::failed;
    }
    const auto got = handle->file.read(sectors, start - skip);
    if (!got) {
        core_.read_failed(got.error().code);
        return ReadOutcome::failed;
    }
    if (*got < skip + out.size()) return ReadOutcome::corrupt;
    if (skip != 0) std::memmove(out.data(), out.data() + skip, out.size());
    for (std::size_t from = 0; from < out.size(); from += kExtentUnit) {
        const std::uint64_t unit = (offset + from) / kExtentUnit;
        const std::size_t length = std::min<std::size_t>(kExtentUnit, out.size() - from);
        // The last sum covers what is left of the object: part of a unit cannot be verified.
        const std::uint64_t whole =
            std::min<std::uint64_t>(kExtentUnit, location.object_size - unit * kExtentUnit);
        if (length != whole || unit >= location.sum_count) return ReadOutcome::absent;
        if (unit_checksum(id, unit, kExtentUnit, out.subspan(from, length)) != location.sums[unit]) {
            return ReadOutcome::corrupt;
        }
    }
    return ReadOutcome::hit;
}

ReadOutcome NvmeTierImpl::read_file(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                                    std::span<std::byte> out) {
    Catalog::Lookup lookup;
    const auto handle = core_.catalog.file(id, lookup);
    if (!handle) {
        if (lookup.error == ENOENT || lookup.error == EBADMSG) return ReadOutcome::corrupt;
        if (lookup.error != 0) core_.read_failed(lookup.error);
        return ReadOutcome::absent;
    }
    if (handle->file.size() != object_size) return ReadOutcome::corrupt;
    if ((offset + out.size()) % kBlockSize != 0 && offset + out.size() != object_size)
        return ReadOutcome::absent;
    if (core_.hooks.after_lookup) core_.hooks.after_lookup();
    const int code = core_.fault(DiskOperation::read);
    const ReadOutcome outcome = code != 0 ? ReadOutcome::failed : handle->file.read(offset, out);
    if (outcome == ReadOutcome::failed) core_.read_failed(code != 0 ? code : EIO);
    return outcome;
}

bool NvmeTierImpl::contains(const ContentId& id, std::uint64_t object_size, std::uint64_t block) {
    Location location;
    if (!core_.health.may_read() || block >= block_count(object_size) || !core_.locate(id, location) ||
        location.object_size != object_size) {
        return false;
    }
    if (location.kind == Location::Kind::extent_entry) {
        return core_.catalog.has_extent(location.extent, location.extent_tag);
    }
    if (location.complete) return core_.catalog.has_file(id);
    Catalog::Lookup lookup;
    const auto handle = core_.catalog.file(id, lookup, false);
    if (!handle) {
        if (lookup.error != 0 && lookup.error != ENOENT && lookup.error != EBADMSG)
            core_.read_failed(lookup.error);
        return false;
    }
    const auto present = handle->file.present(block);
    if (!present) core_.read_failed(present.error().code);
    return present.value_or(false);
}

TierStats NvmeTierImpl::stats() const {
    TierStats stats;
    stats.limit_bytes = core_.options.limit;
    stats.used_bytes = core_.catalog.used();
    stats.hits = core_.counters.hits;
    stats.misses = core_.counters.misses;
    stats.evicted_bytes = core_.counters.evicted_bytes;
    stats.written_bytes = core_.counters.written_bytes;
    stats.dropped = core_.counters.dropped;
    stats.state = core_.health.state_name();
    return stats;
}

}  // namespace

Result<std::unique_ptr<NvmeTierForTests>> open_nvme_tier(const NvmeOptions& options, Index& index,
                                                         NvmeHooks hooks) {
    if (options.limit < kLeastLimit) {
        return fail(EINVAL,
                    "nvme.limit is " + std::to_string(options.limit) + " bytes; it must be 16M or more");
    }
    auto tier = std::make_unique<NvmeTierImpl>(options, index, std::move(hooks));
    if (auto started = tier->start(); !started) return fail(started.error());
    return tier;
}

Result<std::unique_ptr<NvmeTier>> NvmeTier::open(const NvmeOptions& options, Index& index) {
    auto tier = open_nvme_tier(options, index, {});
    if (!tier) return fail(tier.error());
    return std::unique_ptr<NvmeTier>(std::move(*tier));
}

}  // namespace tierfs
