#include "tiering/nvme/packer.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "backends/extent/codec.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs {
namespace {

constexpr std::chrono::seconds kLongestWait{1};
/// Bytes between two objects that are written with them: a chunk of its own for what follows costs a table,
/// and another write.
constexpr std::uint64_t kWidestHole = 8 << 10;

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

bool Packer::has_extent() {
    if (!active_ && !core_.catalog.may_evict(dataset_, core_.extent_size) &&
        !space_.has_room(core_.extent_size)) {
        core_.extents_begun[dataset_] = false;
        return false;
    }
    return true;
}

bool Packer::start_chunk() {
    if (!has_extent()) return false;
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
    core_.counters.unwritten_bytes += entries.back().stored_length;
    core_.unwritten.packed(id, chunk_.stored(entries.back()), as);
}

bool Packer::try_moved(const ContentId& id, std::span<const std::byte> bytes, StoredAs as) {
    if (!active_ && !space_.has_room(core_.extent_size)) return false;
    if (chunk_.empty()) chunk_.start(room());
    const std::array<std::span<const std::byte>, 1> pieces{bytes};
    if (!chunk_.add(id, pieces, as)) return false;
    if (chunk_.table().entries.size() == 1) first_entry_ = core_.now();
    moved_bytes_ += bytes.size();
    core_.counters.unwritten_bytes += bytes.size();
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
    core_.extents_begun[dataset_] = true;
    active_ = Active{number, *uuid, std::move(handle), 0, 0};
    return {};
}

Result<const ChunkTable*> Packer::write_chunk(const Finish& finish) {
    if (!active_) {
        if (auto created = create_extent(); !created) return fail(created.error());
    }
    if (const int code = core_.fault(DiskOperation::write); code != 0) {
        return fail(system_error(code, active_->handle->file.path()));
    }
    const Chunk chunk = finish(*active_);
    const DiskFile& file = active_->handle->file;
    if (auto written = file.write(chunk.front, active_->end); !written) return fail(written.error());
    if (!chunk.back.empty()) {
        auto written = file.write(chunk.back, active_->end + chunk.front.size());
        if (!written) return fail(written.error());
    }
    return chunk.table;
}

Result<void> Packer::commit_chunk(const ChunkTable& table, std::uint64_t moved_bytes) {
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
    core_.counters.reinserted_bytes += moved_bytes;
    core_.counters.admitted_bytes += objects - moved_bytes;
    active_->end = table.end();
    ++active_->chunks;
    return {};
}

void Packer::flush() {
    if (chunk_.empty() || flushing_) return;
    write_and_commit(
        [this](const Active& extent) {
            const auto all = chunk_.finish(extent.uuid, extent.chunks, extent.end);
            return Chunk{&chunk_.table(), all, {}};
        },
        std::exchange(moved_bytes_, 0));
    for (const ChunkEntry& entry : chunk_.table().entries) {
        core_.unwritten.gone(entry.id);
        core_.counters.unwritten_bytes -= entry.stored_length;
    }
    chunk_.clear();
}

void Packer::write_and_commit(const Finish& finish, std::uint64_t moved_bytes) {
    flushing_ = true;
    auto written = write_chunk(finish);
    if (!written && written.error().code == ENOSPC && space_.evict_one()) written = write_chunk(finish);
    auto done = written ? Result<void>() : fail(written.error());
    if (written) {
        TIERFS_SYNC_POINT("nvme.pack.written");
        done = commit_chunk(**written, moved_bytes);
    }
    if (done) {
        TIERFS_SYNC_POINT("nvme.pack.committed");
        core_.write_succeeded();
    } else if (done.error().code == kTierFull) {
        core_.extents_begun[dataset_] = false;
    } else {
        core_.write_failed(done.error());
        retire();
    }
    flushing_ = false;
}

Packer::Slice Packer::first_slice(std::span<const ChunkEntry> entries, std::uint64_t room) {
    Slice slice;
    slice.begin = align_down(entries.front().offset);
    std::uint64_t end = slice.begin;
    for (const ChunkEntry& entry : entries) {
        if (slice.count > 0 && entry.offset > end + kWidestHole) break;
        const auto after = std::uint64_t{entry.offset} + entry.stored_length;
        const auto data = align_up(after) - slice.begin;
        const auto encoded = slice.encoded + entry.encoded_bytes();
        const auto table = table_bytes_for(encoded);
        if (table > kMaxTableBytes || data > kMaxChunkData || table + data > room) break;
        end = after;
        slice.data_bytes = static_cast<std::uint32_t>(data);
        slice.encoded = encoded;
        ++slice.count;
    }
    return slice;
}

void Packer::add_packed(std::span<const std::byte> data, std::span<const ChunkEntry> entries) {
    if (flushing_) return;
    while (!entries.empty() && has_extent()) {
        // The chunk under way has begun with the room that there was then.
        const std::uint64_t kept = chunk_.empty() ? 0 : kMaxTableBytes + kMaxChunkData;
        const Slice slice = first_slice(entries, room() - std::min(room(), kept));
        if (slice.count > 0) {
            write_slice(slice, data, entries.first(slice.count));
            if (!core_.health.may_write()) return;
            entries = entries.subspan(slice.count);
        } else if (!chunk_.empty()) {
            flush();
        } else if (active_) {
            retire();
        } else {
            entries = entries.subspan(1);  // larger than an extent
        }
    }
}

void Packer::write_slice(const Slice& slice, std::span<const std::byte> data,
                         std::span<const ChunkEntry> entries) {
    ChunkTable table;
    table.data_bytes = slice.data_bytes;
    table.entries.assign(entries.begin(), entries.end());
    for (ChunkEntry& entry : table.entries) entry.offset -= static_cast<std::uint32_t>(slice.begin);
    if (slice_table_.span().empty()) slice_table_ = AlignedBuffer(kMaxTableBytes);
    const auto encoded = slice_table_.span().first(table_bytes_for(slice.encoded));
    write_and_commit(
        [&](const Active& extent) {
            table.uuid = extent.uuid;
            table.chunk = extent.chunks;
            table.offset = extent.end;
            encode_chunk_table(table, encoded);
            return Chunk{&table, encoded, data.subspan(slice.begin, slice.data_bytes)};
        },
        0);
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
