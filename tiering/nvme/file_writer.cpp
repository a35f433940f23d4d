#include "tiering/nvme/file_writer.hpp"

#include <algorithm>

#include "config/base/log.hpp"

namespace tierfs {
namespace {

/// What a write may take besides its data: sidecar pages at both ends and blocks of the file's map.
constexpr std::uint64_t kOverhead = 16 * 1024;
constexpr std::size_t kMissingKept = 1024;

/// The part [from, from + length) of the pieces laid end to end.
std::vector<std::span<const std::byte>> slice(std::span<const std::span<const std::byte>> pieces,
                                              std::uint64_t from, std::uint64_t length) {
    std::vector<std::span<const std::byte>> result;
    for (const auto piece : pieces) {
        if (from >= piece.size()) {
            from -= piece.size();
            continue;
        }
        const auto part = piece.subspan(from, std::min<std::uint64_t>(length, piece.size() - from));
        if (!part.empty()) result.push_back(part);
        length -= part.size();
        from = 0;
        if (length == 0) break;
    }
    return result;
}

std::uint64_t sidecar_bytes(std::uint64_t data_bytes) {
    return unit_count(data_bytes, kSidecarUnit) * sizeof(std::uint32_t);
}

}  // namespace

std::uint64_t FileWriter::space_of(std::uint64_t length) {
    return align_up(length) + align_up(sidecar_bytes(length)) + kOverhead;
}

Result<std::shared_ptr<FileHandle>> FileWriter::create(const ContentId& id, std::uint64_t object_size,
                                                       DatasetNumber dataset) {
    if (const int code = core_.fault(DiskOperation::create); code != 0) {
        return fail(system_error(code, "create backing file"));
    }
    if (auto room = space_.make_room({2 * kOverhead}, dataset); !room) return fail(room.error());
    auto file = BackingFile::create(core_.catalog.files_dir(), id, object_size);
    if (!file) {
        (void)BackingFile::remove(core_.catalog.files_dir(), id);  // the first error is the one to report
        return fail(file.error());
    }
    const auto bytes = file->allocated();
    if (!bytes) return fail(bytes.error());
    auto handle = core_.catalog.make_handle(std::move(*file));
    core_.catalog.add_file(id, *bytes, handle, dataset);
    missing_.erase(id);
    return handle;
}

std::shared_ptr<FileHandle> FileWriter::open_or_create(const ContentId& id, std::uint64_t object_size,
                                                       DatasetNumber dataset) {
    Catalog::Lookup lookup;
    auto handle = core_.catalog.file(id, lookup, false);
    if (handle && handle->file.size() != object_size) handle.reset();
    if (handle) return handle;
    if (!lookup.gone) {  // damaged: starts anew
        if (lookup.error != 0) {
            log::warning("NVMe tier: a backing file cannot be used and is fetched again: " +
                         system_error(lookup.error, "its sidecar").message);
        }
        space_.drop(Unit::file(id));
    }
    auto created = create(id, object_size, dataset);
    if (!created && created.error().code == ENOSPC && space_.evict_one())
        created = create(id, object_size, dataset);
    if (!created) {
        if (created.error().code != kTierFull) core_.write_failed(created.error());
        return nullptr;
    }
    return *created;
}

std::uint64_t& FileWriter::missing_blocks(const ContentId& id, const BackingFile& file) {
    const auto known = missing_.find(id);
    if (known != missing_.end()) return known->second;
    if (missing_.size() >= kMissingKept) missing_.clear();
    const auto present = file.count_present();
    if (!present) core_.read_failed(present.error().code);
    return missing_[id] = block_count(file.size()) - present.value_or(0);
}

void FileWriter::write(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                       std::span<const std::span<const std::byte>> pieces, DatasetNumber dataset) {
    const auto handle = open_or_create(id, object_size, dataset);
    if (!handle) return;
    std::uint64_t& missing = missing_blocks(id, handle->file);
    auto location = core_.find_indexed(id);
    // A record may also say more than is there: "complete", of a file that was taken away since.
    if (!location || location->kind != Location::Kind::backing_file || location->object_size != object_size ||
        (location->complete && missing != 0)) {
        location = Location{};
        location->kind = Location::Kind::backing_file;
        location->device = core_.device_id;
        location->object_size = object_size;
        if (!core_.store_location(id, *location)) return;
    }
    std::uint64_t total = 0;
    for (const auto piece : pieces) total += piece.size();

    Run run;
    const auto write_pending = [&] {
        if (run.length == 0) return true;
        const auto part = slice(pieces, run.offset - offset, run.length);
        const auto done = write_run(id, *handle, run, part, dataset);
        if (!done) return false;
        missing -= std::min(missing, block_count(run.length));
        run.length = 0;
        return true;
    };
    for (std::uint64_t at = offset; at < offset + total; at += kBlockSize) {
        const std::uint64_t length = std::min<std::uint64_t>(kBlockSize, offset + total - at);
        const auto present = handle->file.present(at / kBlockSize);
        if (!present) core_.read_failed(present.error().code);  // it is written again
        if (present.value_or(false)) {
            if (!write_pending()) return;
            continue;
        }
        if (run.length == 0) run.offset = at;
        run.length += length;
    }
    if (!write_pending()) return;
    if (missing == 0 && !location->complete) finish(id, *handle);
}

Result<void> FileWriter::write_run(const ContentId& id, const FileHandle& handle, const Run& run,
                                   std::span<const std::span<const std::byte>> pieces,
                                   DatasetNumber dataset) {
    const Unit unit = Unit::file(id);
    const std::uint64_t need = space_of(run.length);
    // Not the device's fault when this object cannot get more room: it just stays as it is.
    if (auto room = space_.make_room({need, unit}, dataset); !room) return room;
    core_.catalog.resize_file(id, core_.catalog.file_bytes(id) + need);
    const auto attempt = [&]() -> Result<void> {
        if (const int code = core_.fault(DiskOperation::write); code != 0) {
            return fail(system_error(code, "write backing file"));
        }
        return handle.file.write(run.offset, pieces);
    };
    auto written = attempt();
    if (!written && written.error().code == ENOSPC && space_.evict_one(unit)) written = attempt();
    if (const auto bytes = handle.file.allocated()) core_.catalog.resize_file(id, *bytes);
    if (!written) {
        core_.write_failed(written.error());
        return written;
    }
    core_.write_succeeded();
    core_.counters.written_bytes += run.length;
    core_.counters.admitted_bytes += run.length;
    return {};
}

void FileWriter::finish(const ContentId& id, const FileHandle& handle) {
    const auto present = handle.file.count_present();
    if (!present) core_.read_failed(present.error().code);
    if (present.value_or(0) != block_count(handle.file.size())) {
        missing_.erase(id);
        return;
    }
    if (const auto synced = handle.file.sync(); !synced) {
        core_.write_failed(synced.error());
        return;
    }
    Location location;
    location.kind = Location::Kind::backing_file;
    location.device = core_.device_id;
    location.object_size = handle.file.size();
    location.complete = true;
    (void)core_.store_location(id, location);  // said in the log; it stays incomplete
}

void FileWriter::drop_blocks(const ContentId& id, std::uint64_t offset, std::uint64_t length) {
    Catalog::Lookup lookup;
    const auto handle = core_.catalog.file(id, lookup, false);
    missing_.erase(id);
    if (!handle) {
        if (!lookup.gone) space_.drop(Unit::file(id));
        return;
    }
    core_.catalog.distrust(id);
    // "complete" goes first: with it on record nobody may find a hole.
    auto location = core_.find_indexed(id);
    if (location && location->kind == Location::Kind::backing_file && location->complete) {
        location->complete = false;
        (void)core_.store_location(id, *location);
    }
    const std::uint64_t first = offset / kBlockSize;
    if (!handle->file.clear(first, block_count(offset + length) - first)) space_.drop(Unit::file(id));
}

void FileWriter::drop_damaged(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                              std::uint64_t length) {
    Catalog::Lookup lookup;
    const auto handle = core_.catalog.file(id, lookup, false);
    if (!handle || handle->file.size() != object_size) {
        drop_blocks(id, offset, length);
        return;
    }
    AlignedBuffer buffer(kBlockSize);
    const std::uint64_t end = std::min(offset + length, object_size);
    for (std::uint64_t at = offset / kBlockSize * kBlockSize; at < end; at += kBlockSize) {
        const auto block = buffer.span().first(std::min<std::uint64_t>(kBlockSize, object_size - at));
        const auto outcome = core_.health.may_read() ? handle->file.read(at, block) : ReadOutcome::failed;
        // Each further try would take the device's time-out, and whoever writes waits for it.
        if (outcome == ReadOutcome::failed) return drop_blocks(id, at, end - at);
        if (outcome != ReadOutcome::hit) drop_blocks(id, at, block.size());
    }
}

}  // namespace tierfs
