#include "tiering/nvme/adopt.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>
#include <tuple>

#include "backends/extent/scan.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"

namespace tierfs {
namespace {

namespace fs = std::filesystem;

struct Found {
    Unit unit;
    ExtentUuid uuid;
    std::uint64_t bytes = 0;
    std::int64_t modified_ns = 0;
};

struct FileStat {
    std::uint64_t bytes = 0;  ///< that it takes, or will when its hole-free part is written
    std::int64_t modified_ns = 0;
};

/// What is not known is not counted either: nvme.limit then holds for the rest.
void left_alone(const fs::path& path, int code) {
    log::warning("NVMe tier: left alone until the next start: " + system_error(code, path.native()).message);
}

/// Nothing for what is no regular file, is not there (`is_gone`), or cannot be looked at.
std::optional<FileStat> stat_file(const fs::path& path, bool preallocated, bool* is_gone = nullptr) {
    struct stat status {};
    if (TIERFS_FAULT_CALL("nvme.scan.stat", ::lstat(path.c_str(), &status)) != 0) {
        if (is_gone != nullptr) *is_gone = errno == ENOENT;
        if (errno != ENOENT) left_alone(path, errno);
        return std::nullopt;
    }
    if (!S_ISREG(status.st_mode)) return std::nullopt;
    const auto allocated = static_cast<std::uint64_t>(status.st_blocks) * 512;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    return FileStat{preallocated ? std::max(allocated, size) : allocated,
                    std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

void find_extents(const NvmeCore& core, std::vector<Found>& found, std::uint64_t& next,
                  std::error_code& error) {
    if (TIERFS_FAULT_CODE("nvme.scan.extents", error)) return;
    for (fs::directory_iterator at(core.catalog.extents_dir(), error), end; !error && at != end;
         at.increment(error)) {
        const auto name = parse_extent_file_name(at->path().filename().native());
        if (!name || name->number == UINT64_MAX) continue;
        next = std::max(next, name->number + 1);  // also of one that cannot be looked at: it stays
        const auto status = stat_file(at->path(), true);
        if (!status) continue;
        found.push_back({Unit::extent(name->number), name->uuid, status->bytes, status->modified_ns});
    }
}

void find_file(const fs::path& path, std::vector<Found>& found) {
    const auto id = BackingFile::parse_name(path.stem().native());
    if (!id) return;
    const bool data = path.extension() == ".data";
    if (!data && path.extension() != ".sums") return;
    bool is_alone = false;
    const auto partner =
        stat_file(fs::path(path).replace_extension(data ? ".sums" : ".data"), false, &is_alone);
    if (!partner && !is_alone) return;
    if (!partner) {
        std::error_code ignored;  // tried again at the next start
        if (!TIERFS_FAULT_CODE("nvme.scan.unlink", ignored)) fs::remove(path, ignored);
        return;
    }
    const auto status = stat_file(path, false);
    if (!data || !status) return;
    found.push_back({Unit::file(*id), {}, status->bytes + partner->bytes, status->modified_ns});
}

void find_files(const NvmeCore& core, std::vector<Found>& found, std::error_code& error) {
    if (TIERFS_FAULT_CODE("nvme.scan.files", error)) return;
    for (fs::directory_iterator at(core.catalog.files_dir(), error), end; !error && at != end;
         at.increment(error)) {
        std::error_code inner;
        if (at->path().filename().native().size() != 2) continue;
        const bool folder = !TIERFS_FAULT_CODE("nvme.scan.folder", inner) &&
                            at->symlink_status(inner).type() == fs::file_type::directory;
        if (inner) left_alone(at->path(), inner.value());
        if (!folder) continue;
        std::vector<fs::path> paths;  // complete before files are unlinked
        for (fs::directory_iterator file(at->path(), inner), last; !inner && file != last;
             file.increment(inner)) {
            paths.push_back(file->path());
        }
        for (const auto& path : paths) find_file(path, found);
    }
}

bool ends_in_zeros(const DiskFile& file) {
    const auto sizes = file.sizes();
    if (!sizes || sizes->size < kDiskAlignment) return false;
    AlignedBuffer page(kDiskAlignment);
    const auto got = file.read(page.span(), align_down(sizes->size - kDiskAlignment));
    return got && std::all_of(page.span().begin(), page.span().begin() + static_cast<std::ptrdiff_t>(*got),
                              [](std::byte byte) { return byte == std::byte{0}; });
}

/// Where the chunks begin that no record knows and that are to be taken in; nothing: there are none. An
/// extent without a record was written under an index that is lost. In the one that was being written when
/// the last run died, chunks may stand behind the last one on record. All else without a record was erased.
std::optional<std::uint64_t> first_unrecorded(NvmeCore& core, std::uint64_t number, const ExtentUuid& uuid,
                                              const DiskFile& file) {
    const bool unfinished = ends_in_zeros(file);
    std::uint64_t from = 0;
    const auto scanned = scan_extent(file, uuid, [&](const ChunkTable& table) {
        const bool known =
            std::any_of(table.entries.begin(), table.entries.end(), [&](const ChunkEntry& entry) {
                const auto location = core.find_indexed(entry.id);
                return location && location->extent == number && location->extent_tag == uuid.low;
            });
        if (known) from = table.end();
        return !known || unfinished;
    });
    if (!scanned || from >= scanned->end) return std::nullopt;
    return from;
}

void adopt_extent(NvmeCore& core, const Unit& unit) {
    const std::uint64_t number = unit.id.low;
    Catalog::Lookup lookup;
    const auto handle = core.catalog.extent_of_number(number, lookup);
    if (!handle) {
        if (!lookup.gone)
            left_alone(core.catalog.extent_path(number, core.catalog.uuid(number)), lookup.error);
        return;
    }
    const ExtentUuid uuid = core.catalog.uuid(number);
    const auto from = first_unrecorded(core, number, uuid, handle->file);
    if (!from) return;
    auto batch = core.index.batch();
    std::uint64_t unknown = 0;
    const auto scanned = scan_extent(handle->file, uuid, [&](const ChunkTable& table) {
        if (table.offset < *from) return true;
        for (const ChunkEntry& entry : table.entries) {
            if (!codec_of(entry.codec)) {
                ++unknown;
                continue;
            }
            if (core.find_indexed(entry.id) || core.is_elsewhere(entry.id)) continue;
            batch->put_location(entry.id, Location::of_entry(core.device_id, number, table, entry).encode());
        }
        return core.commit_when_large(batch);
    });
    if (!scanned) log::warning("NVMe tier: " + scanned.error().message);
    (void)core.commit(std::move(batch));
    if (unknown == 0) return;
    core.counters.unknown_codecs += unknown;
    log::warning("NVMe tier: " + core.catalog.extent_path(number, uuid).native() + ": " +
                 std::to_string(unknown) +
                 " objects are of a codec that this version does not know; they will be fetched again");
}

/// The extent that the last run was writing is as long as it was preallocated.
void trim_extent(NvmeCore& core, const Unit& unit) {
    const std::uint64_t number = unit.id.low;
    const ExtentUuid uuid = core.catalog.uuid(number);
    auto file = DiskFile::open(core.catalog.extent_path(number, uuid), {.write = true});
    if (!file || !ends_in_zeros(*file)) return;
    const auto scanned = scan_extent(*file, uuid, [](const ChunkTable&) { return true; });
    const auto sizes = file->sizes();
    // A damaged extent is left as it is: good entries may stand behind the damage.
    if (!scanned || !sizes || !scanned->intact || scanned->end == 0 || scanned->end >= sizes->size) return;
    if (!file->truncate(scanned->end)) return;
    if (const auto now = file->sizes()) core.catalog.seal_extent(number, std::max(now->size, now->allocated));
}

void adopt_file(NvmeCore& core, SpaceKeeper& space, const Unit& unit) {
    if (core.find_indexed(unit.id)) return;
    if (core.is_elsewhere(unit.id)) {  // while this device was away
        space.drop(unit);
        return;
    }
    Catalog::Lookup lookup;
    const auto handle = core.catalog.file(unit.id, lookup, false);
    if (!handle) {
        if (!lookup.gone) space.drop(unit);
        return;
    }
    Location location;
    location.kind = Location::Kind::backing_file;
    location.device = core.device_id;
    location.object_size = handle->file.size();
    (void)core.store_location(unit.id, location);  // said in the log
}

}  // namespace

Result<void> make_folders(const NvmeCore& core) {
    for (const auto& folder : {core.catalog.extents_dir(), core.catalog.files_dir()}) {
        if (TIERFS_FAULT_CALL("nvme.folder", ::mkdir(folder.c_str(), 0700)) != 0 && errno != EEXIST) {
            return fail(system_error(errno, folder.native()));
        }
    }
    return {};
}

Result<FoundUnits> find_units(NvmeCore& core) {
    std::error_code error;
    FoundUnits result;
    std::vector<Found> found;
    find_extents(core, found, result.next_number, error);
    if (!error) find_files(core, found, error);
    if (error) return fail(system_error(error.value(), core.options.directory.native()));
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
        return std::tie(a.modified_ns, a.unit.id) < std::tie(b.modified_ns, b.unit.id);
    });
    result.units.reserve(found.size());
    for (const Found& each : found) {
        if (each.unit.is_extent) {
            core.catalog.add_extent(each.unit.id.low, each.uuid, each.bytes, true);
        } else {
            core.catalog.add_file(each.unit.id, each.bytes, nullptr);
        }
        result.units.push_back(each.unit);
    }
    return result;
}

void adopt_unit(NvmeCore& core, SpaceKeeper& space, const Unit& unit) {
    if (!unit.is_extent) {
        adopt_file(core, space, unit);
        return;
    }
    adopt_extent(core, unit);
    trim_extent(core, unit);
}

}  // namespace tierfs
