#include "tiering/nvme/space.hpp"

#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "backends/extent/scan.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs {

Result<void> SpaceKeeper::make_room(const Room& room, DatasetNumber dataset) {
    const Taker taker{dataset, room.bytes};
    while (core_.catalog.used() + room.bytes + room.spare > core_.limit) {
        auto evicted = evict_next(room.keep, taker, true);
        if (evicted) continue;
        if (core_.catalog.used() + room.bytes > core_.limit) return evicted;
        break;
    }
    auto space = core_.free_space();
    while (space && space->available < room.bytes + room.spare + core_.reserve(*space)) {
        auto evicted = evict_next(room.keep, taker, true);
        const bool enough = space->available >= room.bytes + core_.reserve(*space);
        if (!evicted && !enough && core_.options.keep_free != 0) return fail(kTierFull, "full");
        if (!evicted && !enough && evicted.error().code == kTierFull) return evicted;
        if (!evicted) break;
        space = core_.free_space();
    }
    return {};
}

bool SpaceKeeper::has_room(std::uint64_t bytes) const {
    if (core_.catalog.used() + bytes > core_.limit) return false;
    return core_.has_space(bytes);
}

bool SpaceKeeper::evict_one(const std::optional<Unit>& keep) {
    return evict_next(keep, std::nullopt, false).has_value();
}

void SpaceKeeper::meet_limit() {
    while (core_.catalog.used() > core_.limit && evict_next(std::nullopt, std::nullopt, true)) {
    }
}

Result<void> SpaceKeeper::evict_next(const std::optional<Unit>& keep, const std::optional<Taker>& taker,
                                     bool save) {
    if (taker && !core_.catalog.may_evict(taker->dataset, taker->bytes)) return fail(kTierFull, "full");
    // On a file system that went read-only, what is there can still be read: it is not to be forgotten.
    const auto& folder = core_.catalog.extents_dir();
    if (TIERFS_FAULT_CALL("nvme.access", ::access(folder.c_str(), W_OK)) != 0) {
        const Error error = system_error(errno, folder.native());
        core_.write_failed(error);
        return fail(error);
    }
    const auto next = core_.catalog.choose_next(keep, !taker, taker ? taker->dataset : DatasetNumber{0},
                                                taker ? taker->bytes : 0);
    const bool stays = taker && core_.catalog.shares().get(taker->dataset) != Retention::goes;
    if (!next && taker && (stays || core_.catalog.has_pins() || core_.catalog.shares().has_pinned()))
        return fail(kTierFull, "full");
    if (!next) return fail(ENOSPC, core_.options.directory.native() + ": nothing to evict");
    if (save && save_ && next->unit.is_extent) save_(*next);
    auto victim = core_.catalog.take(next->unit);
    if (!victim) return {};  // cannot be: nobody else takes units
    return evict(std::move(*victim));
}

void SpaceKeeper::drop(const Unit& unit) {
    auto victim = core_.catalog.take(unit);
    if (victim) (void)evict(std::move(*victim));  // said in the log
}

void SpaceKeeper::erase_entries(const Victim& victim) {
    const std::uint64_t number = victim.unit.id.low;
    std::optional<DiskFile> opened;
    const DiskFile* file = nullptr;
    if (victim.extent) {
        file = &victim.extent->file;
    } else if (auto result = DiskFile::open(core_.catalog.extent_path(number, victim.uuid), {})) {
        file = &opened.emplace(std::move(*result));
    } else {
        log::warning("NVMe tier: " + result.error().message);
    }
    if (file == nullptr) return;  // its records are erased when somebody asks for them
    auto batch = core_.index.batch();
    const auto scanned = scan_extent(*file, victim.uuid, [&](const ChunkTable& table) {
        for (const ChunkEntry& entry : table.entries) {
            const auto location = core_.find_indexed(entry.id);
            core_.locations.forget(entry.id);
            if (location && location->kind == Location::Kind::extent_entry && location->extent == number &&
                location->extent_tag == victim.uuid.low) {
                batch->erase_location(entry.id);
                forget_entry(victim, entry);
            }
        }
        (void)core_.commit_when_large(batch);  // what stays is erased when somebody asks for it
        return true;
    });
    if (!scanned) log::warning("NVMe tier: " + scanned.error().message);
    (void)core_.commit(std::move(batch));
}

/// One read says nothing of the next time that it is here; that it left without a second one does.
void SpaceKeeper::forget_entry(const Victim& victim, const ChunkEntry& entry) {
    if (core_.shared.heat.get(entry.id) == 1) core_.shared.heat.set(entry.id, 0);
    if (victim.main || core_.catalog.shares().get(victim.dataset) != Retention::goes) return;
    core_.ghosted_bytes += entry.stored_length;
    core_.shared.ghosts.put(entry.id, core_.ghosted_bytes);
}

Result<void> SpaceKeeper::evict(Victim victim) {
    TIERFS_SYNC_POINT("nvme.evict.taken");
    if (victim.unit.is_extent) {
        erase_entries(victim);
    } else {
        const auto location = core_.find_indexed(victim.unit.id);
        if (location && location->kind == Location::Kind::backing_file) core_.erase_location(victim.unit.id);
    }
    TIERFS_SYNC_POINT("nvme.evict.unindexed");
    if (core_.hooks.before_unlink) core_.hooks.before_unlink();
    Result<void> removed;
    if (const int code = core_.fault(DiskOperation::unlink); code != 0) {
        removed = fail(system_error(code, "unlink"));
    } else if (victim.unit.is_extent) {
        const auto path = core_.catalog.extent_path(victim.unit.id.low, victim.uuid);
        std::error_code error;
        if (!TIERFS_FAULT_CODE("nvme.extent.unlink", error)) std::filesystem::remove(path, error);
        if (error) removed = fail(system_error(error.value(), path.native()));
    } else {
        removed = BackingFile::remove(core_.catalog.files_dir(), victim.unit.id);
    }
    if (!removed) {
        // What cannot be unlinked goes on taking space, and goes on being counted.
        core_.write_failed(removed.error());
        return removed;
    }
    core_.counters.evicted_bytes += victim.bytes;
    core_.catalog.release(std::move(victim));
    return {};
}

}  // namespace tierfs
