#include "tiering/nvme/survivors.hpp"

#include <algorithm>
#include <vector>

#include "backends/extent/scan.hpp"
#include "config/base/log.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs {
namespace {

/// What lies between two entries is read along with them up to here: a read costs more than its bytes.
constexpr std::uint64_t kGap = 64 * 1024;

unsigned least_reads(bool main) {
    return main ? 1 : 2;
}

}  // namespace

bool Survivors::may_move(const Catalog::Chosen& extent) const {
    return extent.dataset != kUnknownDataset &&
           core_.catalog.shares().get(extent.dataset) == Retention::goes &&
           core_.health.state() == Health::State::normal;
}

Result<Survivors::Cut> Survivors::census(const Catalog::Chosen& extent, const DiskFile& file) const {
    std::array<std::uint64_t, ReadHeat::kMost + 1> bytes{};
    const auto scanned = scan_extent(file, extent.uuid, [&](const ChunkTable& table) {
        for (const ChunkEntry& entry : table.entries)
            bytes.at(core_.shared.heat.get(entry.id)) += entry.stored_length;
        return true;
    });
    if (!scanned) return fail(scanned.error());
    Cut cut;
    const auto hot = bytes.begin() + least_reads(extent.main);
    if (std::all_of(hot, bytes.end(), [](std::uint64_t each) { return each == 0; })) return cut;
    std::uint64_t left = core_.extent_size / 4 * 3;
    for (unsigned reads = ReadHeat::kMost; reads >= least_reads(extent.main) && left > 0; --reads) {
        cut = {reads, left};
        left -= std::min(left, bytes.at(reads));
    }
    return cut;
}

bool Survivors::is_chosen(const ChunkEntry& entry, Cut& cut) const {
    const unsigned reads = core_.shared.heat.get(entry.id);
    if (reads != cut.least) return reads > cut.least;
    if (cut.bytes < entry.stored_length) return false;
    cut.bytes -= entry.stored_length;
    return true;
}

/// It may have been erased, or lie elsewhere too.
bool Survivors::is_current(const Catalog::Chosen& extent, const ChunkTable& table, const ChunkEntry& entry) {
    const auto known = core_.find_indexed(entry.id);
    return known && known->kind == Location::Kind::extent_entry && known->extent == extent.unit.id.low &&
           known->extent_tag == extent.uuid.low && known->offset == table.data_offset() + entry.offset;
}

bool Survivors::verifies(const ChunkEntry& entry, std::span<const std::byte> bytes) {
    for (std::size_t unit = 0; unit < entry.sums.size(); ++unit) {
        const std::size_t from = unit * kExtentUnit;
        const auto part = bytes.subspan(from, std::min<std::size_t>(kExtentUnit, bytes.size() - from));
        if (unit_checksum(entry.id, unit, kExtentUnit, part) == entry.sums[unit]) continue;
        ++core_.counters.checksum_errors;
        log::warning("NVMe tier " + core_.options.directory.native() + ": object " + to_string(entry.id) +
                     " does not verify, and is not moved");
        return false;
    }
    return true;
}

void Survivors::move_run(Move& move, const ChunkTable& table, Entries entries) {
    const std::uint64_t begin = align_down(entries.front()->offset);
    const std::uint64_t end = align_up(std::uint64_t{entries.back()->offset} + entries.back()->stored_length);
    const auto out = move.buffer.span().first(end - begin);
    Result<std::size_t> got = 0;
    if (const int code = core_.fault(DiskOperation::read); code != 0) {
        got = fail(system_error(code, move.file.path()));
    } else {
        got = move.file.read(out, table.data_offset() + begin);
    }
    if (!got || *got < out.size()) {
        if (!got) core_.read_failed(got.error().code);
        move.ended = true;
        return;
    }
    for (const ChunkEntry* entry : entries) {
        const auto bytes = out.subspan(entry->offset - begin, entry->stored_length);
        if (!verifies(*entry, bytes)) continue;
        const StoredAs as{codec_of(entry->codec).value_or(Codec::none), entry->object_size};
        if (!move.target.add_moved(entry->id, bytes, as)) {
            move.ended = true;
            return;
        }
        // A round of main costs a read; what is new in main has none to its credit.
        const unsigned reads = core_.shared.heat.get(entry->id);
        core_.shared.heat.set(entry->id, move.extent.main && reads > 0 ? reads - 1 : 0);
    }
}

void Survivors::move_chunk(Move& move, const ChunkTable& table) {
    std::vector<const ChunkEntry*> run;
    std::uint64_t end = 0;  // of the run
    const auto finish = [&] {
        if (!run.empty() && !move.ended) move_run(move, table, run);
        run.clear();
    };
    for (const ChunkEntry& entry : table.entries) {
        if (!is_chosen(entry, move.cut) || !is_current(move.extent, table, entry)) continue;
        if (!run.empty() && entry.offset > end + kGap) finish();
        run.push_back(&entry);
        end = std::uint64_t{entry.offset} + entry.stored_length;
    }
    finish();
}

void Survivors::save(const Catalog::Chosen& extent) {
    if (moving_ || !may_move(extent)) return;
    const auto began = core_.now();
    Catalog::Lookup lookup;
    const auto handle = core_.catalog.extent_of_number(extent.unit.id.low, lookup);
    if (!handle) return;  // said when it goes
    const auto cut = census(extent, handle->file);
    if (!cut) {
        core_.read_failed(cut.error().code);
        return;
    }
    if (cut->least > ReadHeat::kMost) return;
    Packer* const target = packers_.for_moved(extent.dataset);
    if (target == nullptr || target->is_flushing()) return;
    moving_ = true;
    Move move{extent, handle->file, *target, *cut, began + kLongest, AlignedBuffer(kMaxChunkData), false};
    const auto scanned = scan_extent(handle->file, extent.uuid, [&](const ChunkTable& table) {
        move_chunk(move, table);
        const bool well = core_.health.state() == Health::State::normal;
        return !move.ended && well && core_.now() < move.deadline;
    });
    if (!scanned) core_.read_failed(scanned.error().code);
    TIERFS_SYNC_POINT("nvme.survivors.copied");
    target->flush();  // their records are to name the copies before the extent goes
    moving_ = false;
}

}  // namespace tierfs
