#include "tiering/pack/packed_origin.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "backends/disk/file_descriptor.hpp"
#include "config/log.hpp"
#include "tiering/pack/extent_reads.hpp"
#include "tiering/pack/fetch_index.hpp"
#include "tiering/pack/index.hpp"
#include "tiering/pack/publish.hpp"
#include "tiering/stage/json_text.hpp"

namespace tierfs {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamesPerPage = 4096;
constexpr const char* kKept = "pack-";

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
          extents_(*dest_, *source_) {}

    [[nodiscard]] std::string identity() const override { return source_->identity(); }
    [[nodiscard]] std::string kind() const override { return source_->kind(); }
    /// The manifest has been read, and the source need not answer.
    Result<void> check() override { return {}; }
    Result<Attributes> stat(const std::string& path) override {
        auto entry = index_->find(path);
        if (!entry) return fail(entry.error());
        return owned(std::move(entry->attributes));
    }
    Result<ListPage> list(const std::string& path, const std::string& token) override;
    Result<std::string> read_link(const std::string& path) override {
        auto entry = index_->find(path);
        if (!entry) return fail(entry.error());
        if (entry->attributes.kind != ObjectKind::symlink)
            return fail(EINVAL, "'" + path + "' is no symbolic link");
        return std::move(entry->link);
    }
    void read(OriginRead request) override;
    [[nodiscard]] OriginStats stats() const override { return sum(source_->stats(), dest_->stats()); }
    /// A look-up in the index costs less than a listing.
    [[nodiscard]] bool listing_is_cheap() const override { return false; }
    void stop() override {
        dest_->stop();
        source_->stop();
    }
    [[nodiscard]] bool is_held() const override { return dest_->is_held() || source_->is_held(); }

    Result<void> open_index(const fs::path& folder) override;
    [[nodiscard]] const pack::Manifest& manifest() const override { return manifest_; }
    [[nodiscard]] PackStats pack_stats() const override {
        PackStats stats = extents_.stats();
        stats.location = settings_.pack;
        stats.index = to_string(manifest_.index);
        stats.files = manifest_.files;
        return stats;
    }

  private:
    Result<void> bring_index(const fs::path& path);
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
    std::unique_ptr<pack::PackIndex> index_;
    pack::ExtentReads extents_;
};

Result<ListPage> PackOverSource::list(const std::string& path, const std::string& token) {
    ListPage page;
    bool more = false;
    const auto listed = index_->list(path, token, [&](const pack::Entry& entry) {
        more = page.entries.size() == kNamesPerPage;
        if (!more) page.entries.push_back({entry.name, owned(entry.attributes)});
        return !more;
    });
    if (!listed) return fail(listed.error());
    if (more) page.next = page.entries.back().name;
    return page;
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

Result<void> PackOverSource::open_index(const fs::path& folder) {
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    const fs::path path = folder / (kKept + to_string(manifest_.index));
    const fs::path kept = folder / kept_manifest_name(settings_);
    for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored)) {
        const auto name = it->path().filename().string();
        if (name.starts_with(kKept) && it->path() != path && it->path() != kept)
            fs::remove(it->path(), ignored);
    }
    keep_manifest(manifest_, kept);
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
        return fail(EINVAL, settings.pack + " is a pack of " + stage::printable(manifest->source) +
                                ", not of " + stage::printable((*source)->identity()));
    }
    return std::make_unique<PackOverSource>(settings, std::move(*source), std::move(*dest),
                                            std::move(*manifest));
}

}  // namespace tierfs
