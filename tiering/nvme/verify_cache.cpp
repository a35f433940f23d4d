#include "tiering/nvme/verify_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "backends/extent/codec.hpp"
#include "backends/extent/scan.hpp"
#include "config/base/file_descriptor.hpp"
#include "tiering/nvme/backing_file.hpp"

namespace tierfs {
namespace {

namespace fs = std::filesystem;

class Verifier {
  public:
    Verifier(const fs::path& folder, const VerifyOptions& options) : folder_(folder), options_(options) {}

    Result<void> run() {
        if (auto walked = each_file(folder_ / "extents", [this](const fs::path& path) { extent(path); });
            !walked)
            return walked;
        std::error_code error;
        std::vector<fs::path> folders;
        for (fs::directory_iterator at(folder_ / "files", error), end; !error && at != end;
             at.increment(error))
            folders.push_back(at->path());
        if (error) return fail(system_error(error.value(), (folder_ / "files").native()));
        std::sort(folders.begin(), folders.end());
        for (const auto& each : folders) {
            if (each.filename().native().size() != 2) continue;
            if (auto walked = each_file(each, [this](const fs::path& path) { backing_file(path); }); !walked)
                return walked;
        }
        return {};
    }
    CacheReport take_report() { return std::move(report_); }

  private:
    /// The names are read before anything is removed.
    template <typename Each>
    Result<void> each_file(const fs::path& folder, const Each& each) {
        std::error_code error;
        std::vector<fs::path> paths;
        for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
            paths.push_back(at->path());
        if (error) return fail(system_error(error.value(), folder.native()));
        std::sort(paths.begin(), paths.end());
        for (const auto& path : paths) each(path);
        return {};
    }

    void bad(const fs::path& file, const std::string& what, const std::vector<fs::path>& to_drop) {
        CacheReport::Bad found{file, what, false};
        ++report_.bad_files;
        if (options_.repair) {
            found.dropped = true;
            for (const auto& each : to_drop) {
                std::error_code error;
                fs::remove(each, error);
                found.dropped = found.dropped && !error;
            }
            report_.dropped_files += found.dropped ? 1 : 0;
        }
        if (report_.bad.size() < CacheReport::kMostNamed) report_.bad.push_back(std::move(found));
    }

    void done() const {
        if (options_.progress) options_.progress(report_);
    }

    void extent(const fs::path& path) {
        const auto name = parse_extent_file_name(path.filename().native());
        if (!name) return;
        ++report_.extents;
        const auto problem = problem_of_extent(path, name->uuid);
        if (!problem.empty()) bad(path, problem, {path});
        done();
    }

    std::string problem_of_extent(const fs::path& path, const ExtentUuid& uuid) {
        auto file = DiskFile::open(path, {});
        if (!file) return file.error().message;
        std::string problem;
        std::uint64_t wrong = 0;
        const auto scanned = scan_extent(*file, uuid, [&](const ChunkTable& table) {
            const auto found = wrong_entries(*file, table);
            if (!found) problem = found.error().message;
            wrong += found.value_or(0);
            return found.has_value();
        });
        if (!scanned) return scanned.error().message;
        if (!problem.empty()) return problem;
        if (wrong > 0) return std::to_string(wrong) + " objects differ from their checksums";
        return scanned->intact ? "" : "chunks are damaged or missing";
    }

    Result<std::uint64_t> wrong_entries(const DiskFile& file, const ChunkTable& table) {
        AlignedBuffer data(table.data_bytes);
        const auto got = file.read(data.span().first(table.data_bytes), table.data_offset());
        if (!got) return fail(got.error());
        std::uint64_t wrong = 0;
        for (const ChunkEntry& entry : table.entries) {
            ++report_.objects;
            report_.bytes += entry.stored_length;
            bool right = std::uint64_t{entry.offset} + entry.stored_length <= *got;
            for (std::uint64_t unit = 0; right && unit < entry.sums.size(); ++unit) {
                const std::uint64_t from = unit * kExtentUnit;
                const auto length = std::min<std::uint64_t>(kExtentUnit, entry.stored_length - from);
                right = unit_checksum(entry.id, unit, kExtentUnit,
                                      data.span().subspan(entry.offset + from, length)) == entry.sums[unit];
            }
            if (right && is_readable(entry, data.span().subspan(entry.offset, entry.stored_length))) continue;
            ++wrong;
        }
        return wrong;
    }

    /// Whether the object comes out of what is stored. Of a codec that a later version knows, nobody can say.
    bool is_readable(const ChunkEntry& entry, std::span<const std::byte> stored) {
        const auto codec = codec_of(entry.codec);
        if (!codec) ++report_.unknown_codecs;
        if (!codec || *codec == Codec::none) return true;
        if (object_.size() < entry.object_size) object_ = AlignedBuffer(entry.object_size);
        return decompress(*codec, stored, object_.span().first(entry.object_size));
    }

    void backing_file(const fs::path& path) {
        const bool data = path.extension() == ".data";
        const auto id = BackingFile::parse_name(path.stem().native());
        if (!id || (!data && path.extension() != ".sums")) return;
        const auto paths = BackingFile::paths(folder_ / "files", *id);
        std::error_code error;
        if (!data) {  // told with its data, if there is any
            const bool alone = fs::exists(path, error) && !fs::exists(paths.data, error);
            if (alone && !error) bad(path, "has no data file", {path});
            return;
        }
        ++report_.backing_files;
        const auto problem = problem_of_file(*id);
        if (!problem.empty()) bad(path, problem, {paths.data, paths.sums});
        done();
    }

    std::string problem_of_file(const ContentId& id) {
        const auto file = BackingFile::open(folder_ / "files", id);
        if (!file) return "its sidecar does not fit: " + file.error().message;
        AlignedBuffer buffer(kBlockSize);
        std::uint64_t wrong = 0;
        for (std::uint64_t block = 0; block < block_count(file->size()); ++block) {
            const auto present = file->present(block);
            if (!present) return present.error().message;
            if (!*present) continue;
            const std::uint64_t offset = block * kBlockSize;
            const auto length = std::min<std::uint64_t>(kBlockSize, file->size() - offset);
            const auto outcome = file->read(offset, buffer.span().first(length));
            ++report_.objects;
            report_.bytes += length;
            if (outcome == ReadOutcome::failed) return "cannot be read";
            wrong += outcome == ReadOutcome::hit ? 0 : 1;
        }
        return wrong == 0 ? "" : std::to_string(wrong) + " blocks differ from their checksums";
    }

    const fs::path folder_;
    const VerifyOptions& options_;
    CacheReport report_;
    AlignedBuffer object_;  ///< decompressed
};

bool is_cache(const fs::path& folder) {
    std::error_code error;
    return fs::is_directory(folder / "extents", error) && fs::is_directory(folder / "files", error);
}

}  // namespace

Result<std::vector<fs::path>> find_caches(const fs::path& path) {
    if (is_cache(path)) return std::vector<fs::path>{path};
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
        if (is_cache(at->path())) found.push_back(at->path());
    }
    if (error) return fail(system_error(error.value(), path.native()));
    if (found.empty())
        return fail(EINVAL, path.native() + ": holds no cache of tierfs; name the folder of nvme.path");
    std::sort(found.begin(), found.end());
    return found;
}

Result<CacheReport> verify_cache(const fs::path& folder, const VerifyOptions& options) {
    const auto extents = folder / "extents";
    const FileDescriptor lock(::open(extents.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!lock) return fail(system_error(errno, extents.native()));
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return fail(system_error(errno, extents.native() + ": lock"));
        return fail(EBUSY, folder.native() + ": is in use by a mount; unmount it first");
    }
    Verifier verifier(folder, options);
    if (auto done = verifier.run(); !done) return fail(done.error());
    return verifier.take_report();
}

}  // namespace tierfs
