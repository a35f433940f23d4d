#include "tiering/nvme/nvme_device.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>

#include "backends/extent/codec.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "config/base/sync_point.hpp"
#include "config/base/units.hpp"
#include "tiering/nvme/device_id.hpp"
#include "tiering/nvme/device_limits.hpp"

namespace tierfs {

Result<std::unique_ptr<NvmeDevice>> NvmeDevice::open(NvmeFolder folder, const NvmeDeviceOptions& options,
                                                     const NvmeHooks& hooks, NvmeShared& shared) {
    const auto id =
        device_id_of(options.directory, [&](std::uint64_t known) { return shared.is_present(known); });
    if (!id) return fail(id.error());
    std::unique_ptr<NvmeDevice> device(new NvmeDevice(std::move(folder), options, *id, hooks, shared));
    if (auto started = device->start(); !started) return fail(started.error());
    return device;
}

/// A reader between the question whether it may and its answer.
class NvmeDevice::Waiting {
  public:
    Waiting(NvmeDevice& device, std::uint64_t bytes)
        : device_(device),
          bytes_(bytes),
          began_(device.core_.now()),
          admitted_(device.core_.health.may_read() &&
                    device.watch_.begin(began_, device.core_.health.state() != Health::State::normal)) {
        if (!admitted_ && device.core_.health.may_read()) ++device.core_.counters.bypassed;
    }
    ~Waiting() {
        if (admitted_) device_.watch_.end(began_, device_.core_.now(), bytes_);
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    [[nodiscard]] bool admitted() const { return admitted_; }

  private:
    NvmeDevice& device_;
    const std::uint64_t bytes_;
    const Health::Clock::time_point began_;
    const bool admitted_;
};

void NvmeDevice::look() {
    const auto reads = watch_.look(core_.now());
    const auto write = writer_->busy_for();
    const auto seconds = [](auto time) {
        return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
    };
    if (reads.stalled >= ReadWatch::kDead) {
        core_.give_up("no read has come back for " + seconds(reads.stalled));
    } else if (reads.stalled >= ReadWatch::kStalled) {
        core_.degrade("no read has come back for " + seconds(reads.stalled));
    } else if (write >= kStalledWrite) {
        core_.degrade("a write has not come back for " + seconds(write));
    } else if (reads.slow) {
        core_.degrade(*reads.slow);
    }
}

void NvmeDevice::give_way() {
    const auto space = core_.options.keep_free == 0 ? std::nullopt : core_.free_space();
    if (!space) return;
    const std::uint64_t before = core_.limit;
    const std::uint64_t limit = limit_beside_others(most_, core_.options.keep_free, core_.catalog.used(),
                                                    space->available, before, core_.extent_size);
    if (limit == before) return;
    apply_limit(limit);
    if (before == most_ || limit == most_)
        log::info("NVMe tier " + core_.options.directory.native() + ": " + format_size(space->available) +
                  " are free beside it, nvme.keep_free is " + format_size(core_.options.keep_free) +
                  ": its limit is " + format_size(limit));
    if (limit < before && writer_) writer_->meet_limit();
}

Result<std::uint64_t> NvmeDevice::capacity() const {
    struct statvfs space {};
    if (::statvfs(core_.options.directory.c_str(), &space) != 0)
        return fail(system_error(errno, core_.options.directory.native()));
    return std::uint64_t{space.f_bavail} * space.f_frsize + core_.catalog.used();
}

Result<void> NvmeDevice::start() {
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
    give_way();
    writer_ = std::make_unique<NvmeWriter>(core_, std::move(*found));
    return {};
}

bool NvmeDevice::read(const ContentId& id, const Location& location, std::uint64_t offset,
                      std::span<std::byte> out) {
    const Waiting waiting(*this, out.size());
    if (!waiting.admitted()) {
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
    if (outcome == ReadOutcome::hit && location.kind == Location::Kind::extent_entry)
        core_.shared.heat.read(id, offset, out.size(), location.object_size);
    return outcome == ReadOutcome::hit;
}

bool NvmeDevice::read_unwritten(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                                std::span<std::byte> out) {
    if (!core_.unwritten.read(id, object_size, offset, out, core_.shared.scratch)) return false;
    ++core_.counters.hits;
    return true;
}

ReadOutcome NvmeDevice::read_located(const ContentId& id, const Location& location, std::uint64_t offset,
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
        // Since the caller looked, it may have moved from an extent that went.
        const auto now = gone ? core_.find_indexed(id) : std::nullopt;
        if (now && *now != location && now->object_size == location.object_size)
            return read_located(id, *now, offset, out);
        TIERFS_SYNC_POINT("nvme.read.distrusted");
        writer_->distrust(id, location, offset, out.size(),
                          unreadable ? NvmeWriter::Fault::unreadable : NvmeWriter::Fault::damaged);
    }
    return outcome;
}

ReadOutcome NvmeDevice::read_entry(const ContentId& id, const Location& location, std::uint64_t offset,
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
    return location.codec == Codec::none ? read_stored(handle->file, id, location, offset, out)
                                         : decompress_entry(handle->file, id, location, offset, out);
}

ReadOutcome NvmeDevice::decompress_entry(const DiskFile& file, const ContentId& id, const Location& location,
                                         std::uint64_t offset, std::span<std::byte> out) {
    if (offset > location.object_size || out.size() > location.object_size - offset)
        return ReadOutcome::absent;
    const bool whole = out.size() == location.object_size;
    const std::uint64_t sectors = align_up(location.stored_length);
    const auto memory = core_.shared.scratch.take(sectors + (whole ? 0 : location.object_size));
    if (!memory) return ReadOutcome::absent;
    const auto stored = memory->bytes().first(location.stored_length);
    const ReadOutcome outcome = read_stored(file, id, location, 0, stored);
    if (outcome != ReadOutcome::hit) return outcome;
    const auto object = whole ? out : memory->bytes().subspan(sectors, location.object_size);
    if (!decompress(location.codec, stored, object)) return ReadOutcome::corrupt;
    if (!whole) std::memcpy(out.data(), object.data() + offset, out.size());
    return ReadOutcome::hit;
}

ReadOutcome NvmeDevice::read_stored(const DiskFile& file, const ContentId& id, const Location& location,
                                    std::uint64_t offset, std::span<std::byte> out) {
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
    const auto got = file.read(sectors, start - skip);
    if (!got) {
        core_.read_failed(got.error().code);
        return ReadOutcome::failed;
    }
    if (*got < skip + out.size()) return ReadOutcome::corrupt;
    if (skip != 0) std::memmove(out.data(), out.data() + skip, out.size());
    if (offset % kExtentUnit != 0) return ReadOutcome::absent;  // as with part of a unit, below
    for (std::size_t from = 0; from < out.size(); from += kExtentUnit) {
        const std::uint64_t unit = (offset + from) / kExtentUnit;
        const std::size_t length = std::min<std::size_t>(kExtentUnit, out.size() - from);
        // The last sum covers what is left of the entry: part of a unit cannot be verified.
        const std::uint64_t whole =
            std::min<std::uint64_t>(kExtentUnit, location.stored_length - unit * kExtentUnit);
        if (length != whole || unit >= location.sum_count) return ReadOutcome::absent;
        if (unit_checksum(id, unit, kExtentUnit, out.subspan(from, length)) != location.sums[unit]) {
            return ReadOutcome::corrupt;
        }
    }
    return ReadOutcome::hit;
}

ReadOutcome NvmeDevice::read_file(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                                  std::span<std::byte> out) {
    Catalog::Lookup lookup;
    const auto handle = core_.catalog.file(id, lookup);
    if (!handle) {
        if (lookup.error == ENOENT || lookup.error == EBADMSG) return ReadOutcome::corrupt;
        if (lookup.error != 0) core_.read_failed(lookup.error);
        return ReadOutcome::absent;
    }
    if (handle->file.size() != object_size) return ReadOutcome::corrupt;
    if ((offset + out.size()) % kSidecarUnit != 0 && offset + out.size() != object_size)
        return ReadOutcome::absent;
    if (core_.hooks.after_lookup) core_.hooks.after_lookup();
    const int code = core_.fault(DiskOperation::read);
    const ReadOutcome outcome = code != 0 ? ReadOutcome::failed : handle->file.read(offset, out);
    if (outcome == ReadOutcome::failed) core_.read_failed(code != 0 ? code : EIO);
    return outcome;
}

bool NvmeDevice::holds(const ContentId& id, const Location& location) const {
    return location.kind == Location::Kind::extent_entry
               ? core_.catalog.has_extent(location.extent, location.extent_tag)
               : core_.catalog.has_file(id);
}

bool NvmeDevice::contains(const ContentId& id, const Location& location, std::uint64_t block) {
    if (!core_.health.may_read()) return false;
    if (location.kind == Location::Kind::extent_entry || location.complete) return holds(id, location);
    const Waiting waiting(*this, 0);
    if (!waiting.admitted()) return false;
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

std::optional<WholeFile> NvmeDevice::whole_file(const ContentId& id, const Location& location) {
    const bool is_whole = location.kind == Location::Kind::backing_file && location.complete;
    if (!is_whole || !core_.health.may_read()) return std::nullopt;
    const auto pinned = core_.catalog.pin_file(id);
    if (!pinned) return std::nullopt;
    if (!pinned->trusted) {
        checker_.want({id, location.object_size, pinned->generation});
        return std::nullopt;
    }
    TIERFS_SYNC_POINT("nvme.whole_file.pinned");
    const auto path = BackingFile::paths(core_.catalog.files_dir(), id).data;
    FileDescriptor file(
        TIERFS_FAULT_CALL("passthrough.open", ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        static_cast<std::uint64_t>(status.st_size) != location.object_size) {
        return std::nullopt;  // a read through the tier finds out and repairs
    }
    // A pin keeps off eviction, not the dropping of what turned out to be damaged.
    const auto now = core_.find_indexed(id);
    if (!core_.catalog.is_generation(id, pinned->generation) || !now || *now != location) return std::nullopt;
    return WholeFile{std::move(file), pinned->pin};
}

std::shared_ptr<const void> NvmeDevice::pin_file(const ContentId& id) {
    const auto pinned = core_.catalog.pin_file(id);
    return pinned ? pinned->pin : nullptr;
}

std::shared_ptr<const void> NvmeDevice::owe(std::uint64_t bytes) {
    return core_.catalog.owe(bytes);
}

void NvmeDevice::check_file(const FileChecker::File& file, const std::function<bool()>& stopping) {
    constexpr std::uint64_t kPiece = 1 << 20;
    AlignedBuffer buffer(kPiece);
    const auto location = core_.find_indexed(file.id);
    if (!location || location->object_size != file.size) return;
    for (std::uint64_t offset = 0; offset < file.size; offset += kPiece) {
        const auto length = std::min(kPiece, file.size - offset);
        if (stopping()) return;
        if (read_located(file.id, *location, offset, buffer.span().first(length)) != ReadOutcome::hit) return;
    }
    core_.catalog.trust(file.id, file.generation);
}

std::uint64_t NvmeDevice::free_bytes() const {
    const std::uint64_t taken = core_.catalog.used() + writer_->queued_bytes();
    const std::uint64_t limit = core_.limit;
    return limit - std::min(limit, taken);
}

void NvmeDevice::claim(const ContentId& id, const Location& location, DatasetNumber dataset) {
    const bool is_entry = location.kind == Location::Kind::extent_entry;
    if (is_entry && !core_.catalog.has_extent(location.extent, location.extent_tag)) return;
    core_.catalog.claim(is_entry ? Unit::extent(location.extent) : Unit::file(id), dataset);
}

bool NvmeDevice::take_over(const ContentId& id, const Location& location, DatasetNumber dataset,
                           DatasetNumber from) {
    const bool is_entry = location.kind == Location::Kind::extent_entry;
    if (is_entry && !core_.catalog.has_extent(location.extent, location.extent_tag)) return false;
    return core_.catalog.take_over(is_entry ? Unit::extent(location.extent) : Unit::file(id), dataset, from);
}

TierStats NvmeDevice::stats() const {
    TierStats stats;
    stats.limit_bytes = core_.limit;
    stats.used_bytes = core_.catalog.used();
    stats.hits = core_.counters.hits;
    stats.misses = core_.counters.misses;
    stats.evicted_bytes = core_.counters.evicted_bytes;
    stats.written_bytes = core_.counters.written_bytes;
    stats.admitted_bytes = core_.counters.admitted_bytes;
    stats.reinserted_bytes = core_.counters.reinserted_bytes;
    stats.codec_saved_bytes = core_.counters.codec_saved_bytes;
    stats.unknown_codecs = core_.counters.unknown_codecs;
    stats.dropped = core_.counters.dropped;
    stats.bypassed = core_.counters.bypassed;
    stats.unwritten_bytes = core_.counters.unwritten_bytes;
    stats.state = core_.health.state_name();
    const bool limit_leaves_room = core_.catalog.used() + core_.extent_size <= core_.limit;
    if (core_.health.state() == Health::State::normal && limit_leaves_room && !core_.has_space(0))
        stats.state = "full";
    return stats;
}

}  // namespace tierfs
