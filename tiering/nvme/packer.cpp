#include "tiering/nvme/packer.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "config/sync_point.hpp"
#include "tiering/extent/codec.hpp"

namespace tierfs {
namespace {

constexpr std::chrono::seconds kLongestWait{1};

Result<ExtentUuid> new_uuid() {
    ExtentUuid uuid;
    if (::getrandom(&uuid, sizeof uuid, 0) != static_cast<ssize_t>(sizeof uuid)) {
        return fail(system_error(errno, "getrandom"));
    }
    return uuid;
}

}  // namespace

std::uint64_t Packer::room() const {
    return active_ ? core_.extent_size - active_->end : core_.extent_size;
}

bool Packer::start_chunk() {
    if (!active_ && !core_.catalog.may_evict(dataset_, core_.extent_size) &&
        core_.catalog.used() + core_.extent_size > core_.limit) {
        core_.extents_end[dataset_] = true;
        return false;
    }
    chunk_.start(room());
    return true;
}

void Packer::add(const ContentId& id, std::span<const std::span<const std::byte>> pieces, StoredAs as) {
    if (chunk_.empty() && !start_chunk()) return;
    bool added = chunk_.add(id, pieces, as);
    if (!added && !chunk_.empty()) {
        flush();
        if (!start_chunk()) return;
        added = chunk_.add(id, pieces, as);
    }
    if (!added) {
        retire();
        if (!start_chunk()) return;
        added = chunk_.add(id, pieces, as);
    }
    if (!added) return;
    const auto& entries = chunk_.table().entries;
    if (entries.size() == 1) first_entry_ = core_.now();
    core_.unwritten.packed(id, chunk_.stored(entries.back()), as);
}

bool Packer::try_moved(const ContentId& id, std::span<const std::byte> bytes, StoredAs as) {
    if (!active_ && !space_.has_room(core_.extent_size)) return false;
    if (chunk_.empty()) chunk_.start(room());
    const std::array<std::span<const std::byte>, 1> pieces{bytes};
    if (!chunk_.add(id, pieces, as)) return false;
    if (chunk_.table().entries.size() == 1) first_entry_ = core_.now();
    moved_bytes_ += bytes.size();
    return true;
}

bool Packer::add_moved(const ContentId& id, std::span<const std::byte> bytes, StoredAs as) {
    if (flushing_) return false;  // it makes room for the extent that would take this
    if (try_moved(id, bytes, as)) return true;
    flush();
    if (try_moved(id, bytes, as)) return true;
    retire();
    return try_moved(id, bytes, as);
}

std::optional<Health::Clock::time_point> Packer::deadline() const {
    if (chunk_.empty()) return std::nullopt;
    return first_entry_ + kLongestWait;
}

Result<void> Packer::create_extent() {
    if (const int code = core_.fault(DiskOperation::create); code != 0) {
        return fail(system_error(code, "create extent"));
    }
    const auto uuid = new_uuid();
    if (!uuid) return fail(uuid.error());
    // As much again is left free where what is hot moves before its extent goes.
    const bool moves = !main_ && core_.catalog.shares().get(dataset_) == Retention::goes;
    const SpaceKeeper::Room wanted{core_.extent_size, std::nullopt, moves ? core_.extent_size : 0};
    if (auto done = space_.make_room(wanted, dataset_); !done) return done;
    const std::uint64_t number = next_number_++;
    const auto path = core_.catalog.extent_path(number, *uuid);
    auto file = DiskFile::open(path, {.write = true, .create = true, .truncate = true});
    if (!file) return fail(file.error());
    auto reserved = file->preallocate(core_.extent_size);
    if (!reserved && (reserved.error().code == EOPNOTSUPP || reserved.error().code == ENOSYS)) {
        reserved = file->truncate(core_.extent_size);
    }
    const auto sizes = file->sizes();
    if (!reserved || !sizes) {
        std::error_code ignored;  // the first error is the one to report
        std::filesystem::remove(path, ignored);
        return fail(reserved ? sizes.error() : reserved.error());
    }
    auto handle = core_.catalog.make_handle(std::move(*file));
    core_.catalog.add_extent(number, *uuid, std::max(core_.extent_size, sizes->allocated), false, dataset_,
                             main_);
    core_.catalog.keep_open(number, handle);
    core_.extents_end[dataset_] = false;
    active_ = Active{number, *uuid, std::move(handle), 0, 0};
    return {};
}

Result<void> Packer::write_chunk() {
    if (!active_) {
        if (auto created = create_extent(); !created) return created;
    }
    if (const int code = core_.fault(DiskOperation::write); code != 0) {
        return fail(system_error(code, active_->handle->file.path()));
    }
    const auto bytes = chunk_.finish(active_->uuid, active_->chunks, active_->end);
    return active_->handle->file.write(bytes, active_->end);
}

Result<void> Packer::commit_chunk() {
    const ChunkTable& table = chunk_.table();
    auto batch = core_.index.batch();
    for (const ChunkEntry& entry : table.entries) {
        batch->put_location(entry.id,
                            Location::of_entry(core_.device_id, active_->number, table, entry).encode());
    }
    auto done = core_.index.commit(std::move(batch));
    for (const ChunkEntry& entry : table.entries) {
        // A reader that found nothing or an older place may have left that in the cache.
        core_.locations.forget(entry.id);
    }
    if (!done) return done;
    core_.counters.written_bytes += table.table_bytes + table.data_bytes;
    std::uint64_t objects = 0;
    for (const ChunkEntry& entry : table.entries) {
        objects += entry.stored_length;
        core_.counters.codec_saved_bytes +=
            extent_bytes(entry.object_size) - extent_bytes(entry.stored_length);
    }
    core_.counters.reinserted_bytes += moved_bytes_;
    core_.counters.admitted_bytes += objects - moved_bytes_;
    active_->end = table.end();
    ++active_->chunks;
    return {};
}

void Packer::flush() {
    if (chunk_.empty() || flushing_) return;
    flushing_ = true;
    write_and_commit();
    flushing_ = false;
    moved_bytes_ = 0;
    for (const ChunkEntry& entry : chunk_.table().entries) core_.unwritten.gone(entry.id);
    chunk_.clear();
}

void Packer::write_and_commit() {
    auto written = write_chunk();
    if (!written && written.error().code == ENOSPC && space_.evict_one()) written = write_chunk();
    if (written) {
        TIERFS_SYNC_POINT("nvme.pack.written");
        written = commit_chunk();
    }
    if (written) {
        TIERFS_SYNC_POINT("nvme.pack.committed");
        core_.write_succeeded();
    } else if (written.error().code == kTierFull) {
        core_.extents_end[dataset_] = true;
    } else {
        core_.write_failed(written.error());
        retire();
    }
}

void Packer::retire() {
    if (!active_) return;
    const Active extent = std::move(*active_);
    active_.reset();
    if (extent.end == 0) {
        core_.catalog.seal_extent(extent.number, core_.extent_size);
        space_.drop(Unit::extent(extent.number));
        return;
    }
    std::uint64_t bytes = core_.extent_size;
    if (extent.handle->file.truncate(extent.end)) {
        const auto sizes = extent.handle->file.sizes();
        if (sizes) bytes = std::max(sizes->size, sizes->allocated);
    }
    core_.catalog.seal_extent(extent.number, bytes);
}

void Packer::seal() {
    flush();
    retire();
}

}  // namespace tierfs
