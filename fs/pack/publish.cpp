#include "fs/pack/publish.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "backends/origin/writable_origin.hpp"
#include "backends/origin/young_version.hpp"
#include "backends/pack/fetch_index.hpp"
#include "backends/pack/index_writer.hpp"
#include "backends/pack/reading.hpp"
#include "fs/pack/index_parts.hpp"
#include "fs/pack/known_extents.hpp"
#include "fs/pack/packing_order.hpp"
#include "fs/pack/plan.hpp"
#include "fs/pack/tree.hpp"

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

constexpr unsigned kMostAttempts = 8;

/// Names that only packs have. DEST may hold other things.
bool is_ours(const std::string& name) {
    return parse_extent_file_name(name) || is_index_name(name) || is_part_name(name) ||
           name.starts_with(".tierfs-upload-");
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
        const auto order = parse_order(options_.order, entries_);
        if (order.unknown != 0)
            published_.remarks.push_back(std::to_string(order.unknown) +
                                         " lines of the order name no file of the source");
        if (auto looked = look_at_manifest(); !looked) return fail(looked.error());
        codec_ = options_.codec.value_or(before_ ? before_->codec : PackingCodec{});
        plan_ = plan_extents(entries_, identity_, options_.max_object, order.files, codec_);
        count();
        if (auto looked = look_at_dest(); !looked) return fail(looked.error());
        if (options_.dry_run) return std::move(published_);
        // A pack that is complete is only looked at, which no shards are needed for.
        const bool sharded = options_.shard.count > 1 && !(before_ && published_.found == plan_.size());
        if (!sharded) options_.shard = {};
        auto made = sharded ? make_part() : make_extents();
        if (made && published_.is_complete) made = finish();
        if (!made) return fail(made.error());
        return std::move(published_);
    }

  private:
    void count() {
        Manifest& manifest = published_.manifest;
        manifest.source = identity_;
        manifest.max_object = std::min<std::uint64_t>(options_.max_object, kMaxPackedObject);
        manifest.extents = plan_.size();
        manifest.codec = codec_;
        for (const auto& entry : entries_) {
            const auto kind = entry.attributes.kind;
            ++(kind == ObjectKind::file        ? manifest.files
               : kind == ObjectKind::directory ? manifest.directories
                                               : manifest.symlinks);
            if (kind == ObjectKind::file) manifest.bytes += entry.attributes.size;
        }
        for (std::size_t number = 0; number < plan_.size(); ++number) {
            const auto& extent = plan_[number];
            manifest.packed_files += extent.files.size();
            manifest.packed_bytes += extent.bytes;
            if (!is_of_shard(options_.shard, number)) continue;
            progress_.files_total += extent.files.size();
            progress_.bytes_total += extent.bytes;
        }
    }

    Result<void> look_at_manifest() {
        const auto attributes = dest_.stat(kManifest);
        if (attributes) version_before_ = attributes->version;
        if (!attributes && attributes.error().code != ENOENT) return fail(attributes.error());
        auto there = read_manifest(dest_);
        if (there) {
            if (!attributes) return other_pack("it was published just now");
            if (there->source != identity_) return other_pack("it is of " + there->source);
            before_ = std::move(*there);
        } else if (there.error().code != ENOENT) {
            return fail(there.error());
        }
        return {};
    }

    Result<void> look_at_dest() {
        auto extents = files_in(dest_, kExtents);
        if (!extents) return fail(extents.error());
        there_ = std::move(*extents);
        for (const auto& extent : plan_)
            published_.found += there_.contains(extent_file_name(0, extent.uuid)) ? 1 : 0;
        if (options_.update) return look_at_generation();
        if (before_ && before_->codec != codec_)
            return other_pack("its codec is " + to_string(before_->codec));
        if (before_ && published_.found != plan_.size())
            return other_pack("the source, or the order of the files, has changed since");
        return {};
    }

    /// Without it, or where it is damaged, the tables of the extents say what is in them.
    Result<void> look_at_generation() {
        if (!before_) return {};
        auto index = read_index(dest_, *before_);
        lost_index_ = !index;
        if (!index && (index.error().code == EIO || index.error().code == ENOENT)) return {};
        if (!index) return fail(index.error());
        std::vector<std::unique_ptr<PackIndex>> indexes;
        indexes.push_back(std::move(*index));
        auto earlier = known_extents(indexes, entries_, plan_);
        if (!earlier) return fail(earlier.error());
        earlier_ = std::move(*earlier);
        return {};
    }

    [[nodiscard]] tl::unexpected<Error> other_pack(const std::string& why) const {
        return fail(EEXIST, dest_.identity() + " holds a pack already, and not this one (" + why +
                                "): --update replaces it by one of today's source, or choose another DEST");
    }

    /// Ends with all places known, or with a pack that is not complete, or that another shard has completed.
    Result<void> make_part() {
        const auto digest = digest_of_plan(entries_, plan_);
        if (!digest) return fail(digest.error());
        for (Share shard = options_.shard, each{0, shard.count}; each.index < shard.count; ++each.index)
            parts_.push_back(part_name(*digest, each));
        auto there = files_in(dest_, "");
        if (!there) return fail(there.error());
        if (!there->contains(parts_[options_.shard.index])) {
            if (auto put = put_part(); !put) return put;
            there = files_in(dest_, "");
            if (!there) return fail(there.error());
        }
        std::uint64_t others = 0;
        for (const auto& [name, bytes] : *there) others += is_part_name(name) ? 1 : 0;
        for (const auto& name : parts_) published_.parts += there->contains(name) ? 1 : 0;
        if (others > published_.parts)
            published_.remarks.push_back(
                "there are parts of another state of the source, of other shards, or of another codec: " +
                std::to_string(others - published_.parts));
        published_.is_complete = published_.parts == parts_.size();
        return published_.is_complete ? join_parts(*there) : Result<void>();
    }

    /// Who finishes at the same time takes an upload of ours for one that a killed run has left
    /// (remove_others).
    Result<Written> put_file(const std::string& path, std::span<const std::byte> bytes,
                             const PutOptions& options) {
        for (unsigned attempt = 1;; ++attempt) {
            auto put = dest_.writable()->put(path, bytes, options);
            if (put || put.error().code != ENOENT || attempt == kMostAttempts) return put;
        }
    }

    Result<void> put_part() {
        if (auto made = make_extents(); !made) return made;
        const auto part = encode_part(entries_, extents_, options_.shard);
        if (!part) return fail(part.error());
        PutOptions once;
        once.only_if_absent = true;
        auto put = put_file(parts_[options_.shard.index], bytes_of(*part), once);
        if (!put && put.error().code != EEXIST) return fail(put.error());
        progress_.bytes_written += part->size();
        return {};
    }

    Result<void> join_parts(const std::map<std::string, std::uint64_t>& there) {
        std::vector<std::unique_ptr<PackIndex>> indexes;
        for (const auto& name : parts_) {
            auto index = read_index(dest_, name, there.at(name));
            if (!index && index.error().code == ENOENT) return joined_elsewhere();
            if (!index) return fail(index.error().within(dest_.identity() + "/" + name));
            indexes.push_back(std::move(*index));
        }
        auto known = known_extents(indexes, entries_, plan_);
        if (!known) return fail(known.error().within(dest_.identity() + ": the parts of the index"));
        extents_.resize(plan_.size());
        for (std::size_t number = 0; number < plan_.size(); ++number) {
            if (!(*known)[number])
                return fail(EIO, dest_.identity() + ": no part of the index has extent " +
                                     Extent{plan_[number].uuid, 0}.path() +
                                     ": remove all parts, and run the shards again");
            take_places(number, std::move((*known)[number]->places), (*known)[number]->bytes);
        }
        return {};
    }

    /// Parts that were there are gone: another shard found all of them, too, and was faster.
    Result<void> joined_elsewhere() {
        auto there = read_manifest(dest_);
        if (!there) return fail(there.error());
        Manifest same = published_.manifest;
        same.index = there->index;
        same.index_bytes = there->index_bytes;
        same.extent_bytes = there->extent_bytes;
        if (*there != same) return other_pack("another one was published meanwhile");
        published_.manifest = std::move(*there);
        joined_elsewhere_ = true;
        return {};
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
        if (!is_of_shard(options_.shard, number)) return {};
        const auto& plan = plan_[number];
        const ExtentJob job{entries_, identity_, plan, static_cast<std::uint32_t>(number), codec_};
        Extent extent{plan.uuid, 0};
        const auto there = there_.find(extent_file_name(0, plan.uuid));
        auto places = there == there_.end() ? std::nullopt : places_there(job, there->second);
        if (places) {
            extent.bytes = there->second;
        } else {
            if (before_ && !options_.update) return other_pack("extent " + extent.path() + " is damaged");
            auto built = build_extent(source_, job, progress_, stopped_);
            if (!built) return fail(built.error());
            extent.bytes = built->bytes.size();
            places = std::move(built->places);
            if (auto put = put_extent(job, built->bytes, extent, places); !put) return put;
        }
        take_places(number, std::move(*places), extent.bytes);
        progress_.files += plan.files.size();
        progress_.bytes += plan.bytes;
        return {};
    }

    /// The name of an extent says what is compressed in it and how, and not which version of the codec's
    /// library did it: what another run has put there meanwhile may have other bytes, and is what is taken.
    Result<void> put_extent(const ExtentJob& job, std::span<const std::byte> bytes, Extent& extent,
                            std::optional<Places>& places) {
        PutOptions options;
        options.only_if_absent =
            codec_.codec != Codec::none && !there_.contains(extent_file_name(0, extent.uuid));
        const auto put = put_file(extent.path(), bytes, options);
        if (put) {
            progress_.bytes_written += bytes.size();
            return {};
        }
        if (!options.only_if_absent || put.error().code != EEXIST) return fail(put.error());
        const auto other = dest_.stat(extent.path());
        if (!other) return fail(other.error());
        extent.bytes = other->size;
        places = find_extent(dest_, job, extent.bytes);
        if (!places)
            return other_pack("extent " + extent.path() + ", which another run has made, is damaged");
        return {};
    }

    /// Each file is in one extent: nobody else touches these entries.
    void take_places(std::size_t number, Places places, std::uint64_t bytes) {
        const auto& plan = plan_[number];
        extents_[number] = {plan.uuid, bytes};
        for (std::size_t i = 0; i < plan.files.size(); ++i)
            entries_[plan.files[i]].place = std::move(places[i]);
    }

    std::optional<Places> places_there(const ExtentJob& job, std::uint64_t bytes) {
        if (job.number < earlier_.size() && earlier_[job.number] && earlier_[job.number]->bytes == bytes)
            return std::move(earlier_[job.number]->places);
        return find_extent(dest_, job, bytes);
    }

    Result<void> finish() {
        if (joined_elsewhere_) return {};
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
        published_.was_there = before_ == manifest;
        if (before_ && !published_.was_there && !options_.update)
            return other_pack("the source has changed since");
        if (!published_.was_there || lost_index_) {
            auto put = put_file(manifest.index_path(), bytes_of(index), {});
            if (!put) return fail(put.error());
            progress_.bytes_written += index.size();
        }
        if (!before_)
            if (auto removed = remove_others(); !removed) return removed;
        if (!published_.was_there)
            if (auto named = put_manifest(*text); !named) return named;
        if (auto removed = remove_parts(); !removed) return removed;
        return options_.prune ? remove_others() : Result<void>();
    }

    /// From now on it is this pack.
    Result<void> put_manifest(const std::string& text) {
        PutOptions once;
        once.only_if_absent = !before_;
        if (before_) once.only_if_version = version_before_;
        auto put = put_file(kManifest, bytes_of(text), once);
        if (put) progress_.bytes_written += text.size();
        if (put || (put.error().code != EEXIST && put.error().code != ESTALE))
            return put.map([](const Written&) {});
        // Another run was faster, or it was an attempt whose reply was lost.
        const auto there = read_manifest(dest_);
        if (there && *there == published_.manifest) return {};
        // Or the server takes no version for the right one, as Ceph RGW 16 does.
        const auto version = dest_.stat(kManifest);
        const bool is_same = version && unmarked(version->version) == unmarked(version_before_);
        if (before_ && there && *there == *before_ && is_same)
            return put_file(kManifest, bytes_of(text), {}).map([](const Written&) {});
        return other_pack("another one was published meanwhile");
    }

    Result<void> remove_parts() {
        for (const auto& name : std::exchange(parts_, {})) {
            auto removed = dest_.writable()->remove(name);
            if (!removed && removed.error().code != ENOENT) return removed;
        }
        return {};
    }

    /// What runs on other states of the source left, and killed ones.
    Result<void> remove_others() {
        std::vector<std::string> wanted = parts_;
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
                ++published_.removed;
            }
        }
        return {};
    }

    Origin& source_;
    Origin& dest_;
    PublishOptions options_;
    Progress& progress_;
    const std::function<bool()>& stopped_;
    const std::string identity_;
    std::vector<Entry> entries_;
    PackingCodec codec_;
    std::vector<PlannedExtent> plan_;
    std::vector<Extent> extents_;
    std::map<std::string, std::uint64_t> there_;  ///< files in DEST/extents
    std::optional<Manifest> before_;              ///< of the pack that is there
    std::string version_before_;                  ///< of that manifest
    bool lost_index_ = false;                     ///< what it names cannot be read
    std::vector<std::string> parts_;              ///< of all shards
    bool joined_elsewhere_ = false;
    KnownExtents earlier_;  ///< by number in the plan; with update
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

}  // namespace tierfs::pack
