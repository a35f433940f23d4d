#include "tiering/nvme/space.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "config/fault_point.hpp"
#include "config/log.hpp"
#include "config/sync_point.hpp"
#include "tiering/extent/scan.hpp"

namespace tierfs {
namespace {

constexpr std::uint64_t kReserve = 64 << 20;

struct FreeSpace {
    std::uint64_t available = 0;
    std::uint64_t reserve = 0;
};

std::optional<FreeSpace> free_space(const std::filesystem::path& directory) {
    struct statvfs status {};
    if (TIERFS_FAULT_CALL("nvme.space", ::statvfs(directory.c_str(), &status)) != 0) return std::nullopt;
    return FreeSpace{std::uint64_t{status.f_bavail} * status.f_frsize,
                     std::min(std::uint64_t{status.f_blocks} * status.f_frsize / 50, kReserve)};
}

}  // namespace

Result<void> SpaceKeeper::make_room(std::uint64_t bytes, DatasetNumber dataset,
                                    const std::optional<Unit>& keep) {
    const Taker taker{dataset, bytes};
    while (core_.catalog.used() + bytes > core_.limit) {
        if (auto evicted = try_evict(keep, taker); !evicted) return evicted;
    }
    auto space = free_space(core_.options.directory);
    while (space && space->available < bytes + space->reserve) {
        auto evicted = try_evict(keep, taker);
        if (!evicted && evicted.error().code == kTierFull) return evicted;
        if (!evicted) break;
        space = free_space(core_.options.directory);
    }
    return {};
}

bool SpaceKeeper::evict_one(const std::optional<Unit>& keep) {
    return try_evict(keep, std::nullopt).has_value();
}

Result<void> SpaceKeeper::try_evict(const std::optional<Unit>& keep, const std::optional<Taker>& taker) {
    if (taker && !core_.catalog.may_evict(taker->dataset, taker->bytes)) return fail(kTierFull, "full");
    // On a file system that went read-only, what is there can still be read: it is not to be forgotten.
    const auto& folder = core_.catalog.extents_dir();
    if (TIERFS_FAULT_CALL("nvme.access", ::access(folder.c_str(), W_OK)) != 0) {
        const Error error = system_error(errno, folder.native());
        core_.write_failed(error);
        return fail(error);
    }
    auto victim = core_.catalog.take_next(keep, !taker, taker ? taker->dataset : DatasetNumber{0},
                                          taker ? taker->bytes : 0);
    const bool stays = taker && core_.catalog.shares().get(taker->dataset) != Retention::goes;
    if (!victim && taker && (stays || core_.catalog.has_pins())) return fail(kTierFull, "full");
    if (!victim) return fail(ENOSPC, core_.options.directory.native() + ": nothing to evict");
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
            }
        }
        (void)core_.commit_when_large(batch);  // what stays is erased when somebody asks for it
        return true;
    });
    if (!scanned) log::warning("NVMe tier: " + scanned.error().message);
    (void)core_.commit(std::move(batch));
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
