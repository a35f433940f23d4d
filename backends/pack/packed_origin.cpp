#include "backends/pack/packed_origin.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "backends/pack/extent_reads.hpp"
#include "backends/pack/fetch_index.hpp"
#include "backends/pack/index.hpp"
#include "backends/pack/source_watch.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/json_text.hpp"
#include "config/base/log.hpp"

namespace tierfs {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamesPerPage = 4096;
/// One question of its own costs a mount as much as so many names of a listing, by its way through queue,
/// index and log.
constexpr std::uint64_t kNamesPerStat = 32;
constexpr std::uint64_t kLeastWorth = 8;
constexpr const char* kKept = "pack-";
/// `list` keeps names that differ from the pack in memory, some 300 bytes each: one for so many bytes of
/// memory.limit.
constexpr std::uint64_t kMemoryOfName = 4096;

/// Of this very location: another pack's is not taken for it.
std::string kept_manifest_name(const Settings& settings) {
    return std::string(kKept) + "manifest-" + to_string(content_id(settings.pack, "", ""));
}

OriginStats sum(const OriginStats& a, const OriginStats& b) {
    OriginStats all = a;
    for (const auto member :
         {&OriginStats::get, &OriginStats::head, &OriginStats::list, &OriginStats::put, &OriginStats::remove,
          &OriginStats::other, &OriginStats::bytes_read, &OriginStats::bytes_written, &OriginStats::retries,
          &OriginStats::throttled, &OriginStats::errors, &OriginStats::hedged, &OriginStats::hedges_won}) {
        all.*member += b.*member;
    }
    if (all.reach.why.empty()) all.reach = b.reach;
    return all;
}

std::optional<pack::Manifest> kept_manifest(const fs::path& kept) {
    std::ifstream file(kept, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    auto manifest = pack::parse_manifest(text);
    return manifest ? std::optional(std::move(*manifest)) : std::nullopt;
}

/// Where it cannot be kept, a daemon that takes over asks DEST.
void keep_manifest(const pack::Manifest& manifest, const fs::path& kept) {
    const auto text = pack::encode_manifest(manifest);
    if (text) std::ofstream(kept, std::ios::binary | std::ios::trunc) << *text;
}

/// See PackedOrigin.
class PackOverSource final : public PackedOrigin {
  public:
    PackOverSource(const Settings& settings, std::unique_ptr<Origin> source, std::unique_ptr<Origin> dest,
                   pack::Manifest manifest)
        : settings_(settings),
          source_(std::move(source)),
          dest_(std::move(dest)),
          manifest_(std::move(manifest)),
          makes_owners_(source_->kind() == "s3"),
          asks_source_(settings_.pack_staleness == "check"),
          extents_(*dest_, *source_) {}

    [[nodiscard]] std::string identity() const override { return source_->identity(); }
    [[nodiscard]] std::string kind() const override { return source_->kind(); }
    /// The manifest has been read; the source need not answer, but where every name is asked of it.
    Result<void> check() override { return asks_source_ ? source_->check() : Result<void>(); }
    Result<Attributes> stat(const std::string& path) override;
    Result<ListPage> list(const std::string& path, const std::string& token) override;
    Result<std::string> read_link(const std::string& path) override;
    void read(OriginRead request) override;
    [[nodiscard]] std::optional<pack::Place> place_of(const ObjectRef& object) override;
    void read_run(const std::shared_ptr<ExtentRun>& run) override {
        extents_.read_run(run, index_->extents()[run->extent].path());
    }
    Result<void> ping() override {
        auto source = source_->ping();
        auto dest = dest_->ping();
        return source ? std::move(dest) : std::move(source);
    }
    Result<struct statvfs> statistics() override { return source_->statistics(); }
    [[nodiscard]] bool has_statistics() const override { return source_->has_statistics(); }
    [[nodiscard]] OriginStats stats() const override { return sum(source_->stats(), dest_->stats()); }
    [[nodiscard]] std::uint64_t stats_worth_listing(const std::string& directory) const override {
        if (asks_source_ || changes()->too_many) return source_->stats_worth_listing(directory);
        return std::max(kLeastWorth, index_->about_in(directory) / kNamesPerStat);
    }
    void stop() override {
        if (watch_) watch_->begin_stop();
        dest_->stop();
        source_->stop();
        if (watch_) watch_->stop();
    }
    [[nodiscard]] bool is_held() const override { return dest_->is_held() || source_->is_held(); }

    Result<void> open_index(const fs::path& folder) override;
    void watch_source(std::function<void(const Renewed&)> told) override {
        if (watch_) watch_->start(std::move(told));
    }
    [[nodiscard]] const pack::Manifest& manifest() const override { return manifest_; }
    [[nodiscard]] PackStats pack_stats() const override {
        PackStats stats = extents_.stats();
        stats.location = settings_.pack;
        stats.index = to_string(manifest_.index);
        stats.files = manifest_.files;
        stats.staleness = settings_.pack_staleness;
        if (watch_) stats.comparison = watch_->stats();
        return stats;
    }

  private:
    using ChangesPtr = std::shared_ptr<const pack::Changes>;

    Result<void> bring_index(const fs::path& path);
    Result<void> open_kept_index(const fs::path& path);
    void make_watch(const fs::path& kept);
    [[nodiscard]] ChangesPtr changes() const { return watch_ ? watch_->changes() : kNone; }
    /// What the pack and these changes say.
    Result<Attributes> known(const pack::Changes& changes, const std::string& path);
    Result<ListPage> known_names(const pack::Changes& changes, const std::string& path,
                                 const std::string& token);
    [[nodiscard]] Attributes owned(Attributes attributes) const {
        if (!makes_owners_) return attributes;
        const bool is_directory = attributes.kind == ObjectKind::directory;
        attributes.mode = is_directory ? settings_.s3_directory_mode : settings_.s3_file_mode;
        attributes.uid = settings_.s3_uid;
        attributes.gid = settings_.s3_gid;
        return attributes;
    }

    const Settings settings_;
    const std::unique_ptr<Origin> source_, dest_;
    const pack::Manifest manifest_;
    const bool makes_owners_;
    const bool asks_source_;
    const ChangesPtr kNone = std::make_shared<const pack::Changes>();
    std::unique_ptr<pack::PackIndex> index_;
    pack::ExtentReads extents_;
    std::unique_ptr<pack::SourceWatch> watch_;  ///< with `list`; else null
};

Result<Attributes> PackOverSource::stat(const std::string& path) {
    const auto now = changes();
    if (asks_source_ || now->too_many) return source_->stat(path);
    return known(*now, path);
}

Result<Attributes> PackOverSource::known(const pack::Changes& changes, const std::string& path) {
    if (const auto* changed = changes.find(path); changed != nullptr) {
        if (!changed->now) return fail(ENOENT, "'" + path + "' is at the source no more");
        return owned(*changed->now);
    }
    auto entry = index_->find(path);
    if (!entry) return fail(entry.error());
    return owned(std::move(entry->attributes));
}

Result<ListPage> PackOverSource::list(const std::string& path, const std::string& token) {
    const auto now = changes();
    if (asks_source_ || now->too_many) return source_->list(path, token);
    return known_names(*now, path, token);
}

// Both give their names in order.
Result<ListPage> PackOverSource::known_names(const pack::Changes& changes, const std::string& path,
                                             const std::string& token) {
    const auto self = known(changes, path);
    if (!self) return fail(self.error());
    if (self->kind != ObjectKind::directory) return fail(ENOTDIR, "'" + path + "' is no directory");
    std::set<std::string> differ;
    std::vector<DirectoryEntry> changed;
    bool cut = false;  // behind the last of `differ` there may be more
    changes.list(path, token, [&](const std::string& name, const pack::Changes::Name& is) {
        cut = differ.size() == kNamesPerPage;
        if (cut) return false;
        differ.insert(name);
        if (is.now) changed.push_back({name, owned(*is.now)});
        return true;
    });
    ListPage page;
    auto& entries = page.entries;
    const auto listed = index_->list(path, token, [&](const pack::Entry& entry) {
        if (cut && entry.name > *differ.rbegin()) return false;
        if (!differ.contains(entry.name)) entries.push_back({entry.name, owned(entry.attributes)});
        return entries.size() <= kNamesPerPage;
    });
    const bool is_new = !listed && (listed.error().code == ENOENT || listed.error().code == ENOTDIR);
    if (!listed && !is_new) return fail(listed.error());
    const auto packed = static_cast<std::ptrdiff_t>(entries.size());
    std::move(changed.begin(), changed.end(), std::back_inserter(entries));
    std::inplace_merge(entries.begin(), entries.begin() + packed, entries.end(),
                       [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
    if (cut) page.next = *differ.rbegin();
    if (entries.size() > kNamesPerPage) {
        entries.resize(kNamesPerPage);
        page.next = entries.back().name;
    }
    return page;
}

Result<std::string> PackOverSource::read_link(const std::string& path) {
    const auto now = changes();
    if (asks_source_ || now->too_many || now->find(path) != nullptr) return source_->read_link(path);
    auto entry = index_->find(path);
    if (!entry) return fail(entry.error());
    if (entry->attributes.kind != ObjectKind::symlink)
        return fail(EINVAL, "'" + path + "' is no symbolic link");
    return std::move(entry->link);
}

void PackOverSource::read(OriginRead request) {
    auto entry = index_->find(request.path);
    const bool packed = entry && entry->place && entry->attributes.version == request.version &&
                        !request.destination.empty() && request.offset <= entry->attributes.size &&
                        request.destination.size() <= entry->attributes.size - request.offset;
    if (!packed) return source_->read(std::move(request));
    pack::ExtentRead read;
    read.id = content_id(manifest_.source, request.path, request.version);
    read.request = std::move(request);
    read.size = entry->attributes.size;
    read.extent = index_->extents()[entry->place->extent].path();
    read.place = std::move(*entry->place);
    extents_.read(std::move(read));
}

std::optional<pack::Place> PackOverSource::place_of(const ObjectRef& object) {
    auto entry = index_->find(object.path);
    if (!entry || !entry->place || entry->attributes.version != object.version ||
        entry->attributes.size != object.size) {
        return std::nullopt;
    }
    // What damage has led out of the extent is for who reads it by itself, and says so.
    const std::uint64_t bytes = index_->extents()[entry->place->extent].bytes;
    if (entry->place->offset > bytes || entry->place->stored > bytes - entry->place->offset)
        return std::nullopt;
    return std::move(*entry->place);
}

Result<void> PackOverSource::bring_index(const fs::path& path) {
    const fs::path part = path.string() + ".part";
    {
        const FileDescriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        if (!file) return fail(system_error(errno, part.string()));
        if (auto fetched = pack::fetch_index(*dest_, manifest_, file.get(), part.string()); !fetched)
            return fetched;
        if (::fdatasync(file.get()) != 0) return fail(system_error(errno, part.string()));
    }
    if (::rename(part.c_str(), path.c_str()) != 0) return fail(system_error(errno, path.string()));
    return {};
}

Result<void> PackOverSource::open_kept_index(const fs::path& path) {
    std::error_code ignored;
    if (fs::file_size(path, ignored) == manifest_.index_bytes && !ignored) {
        if (auto opened = pack::PackIndex::open(path.string())) {
            index_ = std::move(*opened);
            return {};
        }
        log::warning(path.string() + ": the index of the pack is damaged: it is fetched again");
    }
    if (auto brought = bring_index(path); !brought)
        return fail(brought.error().within("the index of the pack " + settings_.pack));
    auto opened = pack::PackIndex::open(path.string());
    if (!opened) return fail(opened.error());
    index_ = std::move(*opened);
    return {};
}

Result<void> PackOverSource::open_index(const fs::path& folder) {
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    const fs::path path = folder / (kKept + to_string(manifest_.index));
    const fs::path kept = folder / kept_manifest_name(settings_);
    const fs::path changes = folder / (kKept + ("changes-" + to_string(manifest_.index)));
    const bool watches = settings_.pack_staleness == "list";
    for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored)) {
        const auto name = it->path().filename().string();
        const bool stays = it->path() == path || it->path() == kept || (watches && it->path() == changes);
        if (name.starts_with(kKept) && !stays) fs::remove(it->path(), ignored);
    }
    keep_manifest(manifest_, kept);
    if (auto opened = open_kept_index(path); !opened) return opened;
    if (watches) make_watch(changes);
    return {};
}

void PackOverSource::make_watch(const fs::path& kept) {
    pack::SourceWatchOptions options;
    options.comparison.owners = !makes_owners_;
    options.comparison.most = settings_.memory_limit / kMemoryOfName;
    options.every = settings_.metadata_ttl;
    options.kept = kept.string();
    options.shown = printable(source_->identity());
    watch_ = std::make_unique<pack::SourceWatch>(*index_, *source_, std::move(options));
}

}  // namespace

Result<std::unique_ptr<PackedOrigin>> PackedOrigin::open(const Settings& settings,
                                                         const std::vector<fs::path>& kept) {
    Settings of_source = settings;
    if (settings.origin_deadline != kForever) of_source.origin_deadline /= 2;
    Settings of_dest = of_source;
    of_dest.source = settings.pack;
    auto source = open_origin(of_source);
    if (!source) return fail(source.error());
    auto dest = open_origin(of_dest);
    if (!dest) return fail(dest.error().within("pack"));
    std::optional<pack::Manifest> manifest;
    for (const auto& folder : kept) {
        for (const auto& place : {folder, folder / to_string(content_id((*source)->identity(), "", ""))})
            if (!manifest) manifest = kept_manifest(place / kept_manifest_name(settings));
    }
    if (!manifest) {
        auto read = pack::read_manifest(**dest);
        if (!read && read.error().code == ENOENT)
            return fail(ENOENT, settings.pack + " is no pack: it has no " + pack::kManifest);
        if (!read) return fail(read.error().within("pack"));
        manifest = std::move(*read);
    }
    if (manifest->source != (*source)->identity()) {
        return fail(EINVAL, settings.pack + " is a pack of " + printable(manifest->source) + ", not of " +
                                printable((*source)->identity()));
    }
    return std::make_unique<PackOverSource>(settings, std::move(*source), std::move(*dest),
                                            std::move(*manifest));
}

}  // namespace tierfs
