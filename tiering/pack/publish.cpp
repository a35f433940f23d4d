#include "tiering/pack/publish.hpp"

#include <algorithm>
#include <map>
#include <thread>

#include "backends/writable_origin.hpp"
#include "tiering/pack/index_writer.hpp"
#include "tiering/pack/plan.hpp"
#include "tiering/pack/reading.hpp"
#include "tiering/pack/tree.hpp"

namespace tierfs::pack {

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

/// Files of a directory of `dest`, by name. None when it is absent.
Result<std::map<std::string, std::uint64_t>> files_in(Origin& dest, const std::string& directory) {
    std::map<std::string, std::uint64_t> files;
    std::string token;
    do {
        auto page = dest.list(directory, token);
        if (!page && page.error().code == ENOENT && token.empty()) return files;
        if (!page) return fail(page.error());
        for (const auto& entry : page->entries)
            if (entry.attributes.kind == ObjectKind::file) files[entry.name] = entry.attributes.size;
        token = std::move(page->next);
    } while (!token.empty());
    return files;
}

/// Names that only packs have. DEST may hold other things.
bool is_ours(const std::string& name) {
    return parse_extent_file_name(name) || is_index_name(name) || name.starts_with(".tierfs-upload-");
}

/// One run.
class Publisher {
  public:
    Publisher(Origin& source, Origin& dest, const PublishOptions& options, Progress& progress,
              const std::function<bool()>& stopped)
        : source_(source),
          dest_(dest),
          options_(options),
          progress_(progress),
          stopped_(stopped),
          identity_(source.identity()) {}

    Result<Published> run() {
        auto tree = list_tree(source_, stopped_);
        if (!tree) return fail(tree.error());
        if (!tree->problems.empty()) {
            return fail(EIO, tree->problems.front() + " (" + std::to_string(tree->problems.size()) +
                                 " such problems: nothing is packed)");
        }
        entries_ = std::move(tree->entries);
        published_.remarks = std::move(tree->remarks);
        plan_ = plan_extents(entries_, identity_, options_.max_object);
        count();
        if (auto looked = look_at_dest(); !looked) return fail(looked.error());
        if (options_.dry_run) return std::move(published_);
        if (auto made = make_extents(); !made) return fail(made.error());
        if (auto finished = finish(); !finished) return fail(finished.error());
        return std::move(published_);
    }

  private:
    void count() {
        Manifest& manifest = published_.manifest;
        manifest.source = identity_;
        manifest.max_object = std::min<std::uint64_t>(options_.max_object, kMaxPackedObject);
        manifest.extents = plan_.size();
        for (const auto& entry : entries_) {
            const auto kind = entry.attributes.kind;
            ++(kind == ObjectKind::file        ? manifest.files
               : kind == ObjectKind::directory ? manifest.directories
                                               : manifest.symlinks);
            if (kind == ObjectKind::file) manifest.bytes += entry.attributes.size;
        }
        for (const auto& extent : plan_) {
            manifest.packed_files += extent.files.size();
            manifest.packed_bytes += extent.bytes;
        }
        progress_.files_total = manifest.packed_files;
        progress_.bytes_total = manifest.packed_bytes;
    }

    Result<void> look_at_dest() {
        auto there = read_manifest(dest_);
        if (there) {
            if (there->source != identity_) return other_pack("it is of " + there->source);
            before_ = std::move(*there);
        } else if (there.error().code != ENOENT) {
            return fail(there.error());
        }
        auto extents = files_in(dest_, kExtents);
        if (!extents) return fail(extents.error());
        there_ = std::move(*extents);
        for (const auto& extent : plan_)
            published_.found += there_.contains(extent_file_name(0, extent.uuid)) ? 1 : 0;
        if (before_ && published_.found != plan_.size()) return other_pack("the source has changed since");
        return {};
    }

    [[nodiscard]] tl::unexpected<Error> other_pack(const std::string& why) const {
        return fail(EEXIST, dest_.identity() + " holds a pack already, and not this one (" + why +
                                "): choose another DEST, or remove that pack");
    }

    Result<void> make_extents() {
        extents_.resize(plan_.size());
        std::vector<std::thread> threads;
        const auto count = std::min<std::size_t>(std::max(1U, options_.workers), plan_.size());
        threads.reserve(count);
        for (std::size_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
        for (auto& thread : threads) thread.join();
        const MutexLock lock(mutex_);
        if (error_) return fail(*error_);
        if (stopped_()) return fail(ECANCELED, "stopped: the same command goes on where this one ended");
        return {};
    }

    void work() {
        for (;;) {
            std::size_t number = 0;
            {
                const MutexLock lock(mutex_);
                if (error_ || next_ == plan_.size() || stopped_()) return;
                number = next_++;
            }
            auto made = make_extent(number);
            const MutexLock lock(mutex_);
            if (!made && !error_) error_ = made.error();
        }
    }

    Result<void> make_extent(std::size_t number) {
        const auto& plan = plan_[number];
        const ExtentJob job{entries_, identity_, plan, static_cast<std::uint32_t>(number)};
        Extent& extent = extents_[number];
        extent.uuid = plan.uuid;
        const auto there = there_.find(extent_file_name(0, plan.uuid));
        auto places = there == there_.end() ? std::nullopt : find_extent(dest_, job, there->second);
        if (places) {
            extent.bytes = there->second;
        } else {
            if (before_) return other_pack("extent " + extent.path() + " is damaged");
            auto built = build_extent(source_, job, progress_, stopped_);
            if (!built) return fail(built.error());
            auto put = dest_.writable()->put(extent.path(), built->bytes, {});
            if (!put) return fail(put.error());
            extent.bytes = built->bytes.size();
            progress_.bytes_written += extent.bytes;
            places = std::move(built->places);
        }
        // Each file is in one extent: nobody else touches these entries.
        for (std::size_t i = 0; i < plan.files.size(); ++i)
            entries_[plan.files[i]].place = std::move((*places)[i]);
        progress_.files += plan.files.size();
        progress_.bytes += plan.bytes;
        return {};
    }

    Result<void> finish() {
        IndexWriter writer;
        for (auto& entry : entries_)
            if (auto added = writer.add(std::move(entry)); !added) return added;
        const auto index = writer.finish(extents_);
        Manifest& manifest = published_.manifest;
        manifest.index = hash128(index);
        manifest.index_bytes = index.size();
        for (const auto& extent : extents_) manifest.extent_bytes += extent.bytes;
        auto text = encode_manifest(manifest);
        if (!text) return fail(text.error());
        if (before_) {
            published_.was_there = *before_ == manifest;
            return published_.was_there ? Result<void>() : other_pack("the source has changed since");
        }
        WritableOrigin& writable = *dest_.writable();
        if (auto put = writable.put(manifest.index_path(), bytes_of(index), {}); !put)
            return fail(put.error());
        progress_.bytes_written += index.size() + text->size();
        if (auto removed = remove_leftovers(); !removed) return removed;
        PutOptions once;
        once.only_if_absent = true;
        auto put = writable.put(kManifest, bytes_of(*text), once);
        if (put || put.error().code != EEXIST) return put.map([](const Written&) {});
        // Another run was faster, or an attempt whose reply was lost.
        const auto there = read_manifest(dest_);
        if (there && *there == manifest) return {};
        return other_pack("another one was published meanwhile");
    }

    /// What runs on other states of the source left, and killed ones.
    Result<void> remove_leftovers() {
        std::vector<std::string> wanted;
        for (const auto& extent : extents_) wanted.push_back(extent.path());
        wanted.push_back(published_.manifest.index_path());
        std::sort(wanted.begin(), wanted.end());
        for (const std::string directory : {"", kExtents}) {
            const auto files = files_in(dest_, directory);
            if (!files) return fail(files.error());
            for (const auto& [name, size] : *files) {
                const auto path = directory.empty() ? name : directory + "/" + name;
                if (!is_ours(name) || std::binary_search(wanted.begin(), wanted.end(), path)) continue;
                if (auto removed = dest_.writable()->remove(path); !removed) return removed;
            }
        }
        return {};
    }

    Origin& source_;
    Origin& dest_;
    const PublishOptions& options_;
    Progress& progress_;
    const std::function<bool()>& stopped_;
    const std::string identity_;
    std::vector<Entry> entries_;
    std::vector<PlannedExtent> plan_;
    std::vector<Extent> extents_;
    std::map<std::string, std::uint64_t> there_;  ///< files in DEST/extents
    std::optional<Manifest> before_;              ///< of the pack that is there
    Published published_;
    Mutex mutex_;
    std::size_t next_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::optional<Error> error_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace

Result<Published> publish(Origin& source, Origin& dest, const PublishOptions& options, Progress& progress,
                          const std::function<bool()>& stopped) {
    return Publisher(source, dest, options, progress, stopped).run();
}

Result<Manifest> read_manifest(Origin& dest) {
    std::string text(kManifestBytes, '\0');
    if (auto read = read_now(dest, kManifest, 0, std::as_writable_bytes(std::span(text))); !read)
        return fail(read.error());
    auto manifest = parse_manifest(text);
    if (!manifest) return fail(manifest.error().within(dest.identity() + "/" + kManifest));
    return manifest;
}

}  // namespace tierfs::pack
