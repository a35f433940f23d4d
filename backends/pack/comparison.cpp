#include "backends/pack/comparison.hpp"

#include <algorithm>
#include <utility>

#include "backends/origin/directory_walk.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::pack {

namespace {

bool is_gone(const Error& error) {
    return error.code == ENOENT || error.code == ENOTDIR;
}

/// One directory: what its names are at the source, beside what the pack says.
class Directory {
  public:
    Directory(PackIndex& index, std::string path, bool owners)
        : index_(index), path_(std::move(path)), owners_(owners) {}

    Result<void> take_in(const ListPage& page) {
        std::vector<const DirectoryEntry*> files;
        for (const auto& entry : page.entries) {
            if (!is_clean_name(entry.name) || !is_clean_directory(path_of(entry.name))) continue;
            if (entry.attributes.kind == ObjectKind::directory) {
                directories_.insert_or_assign(entry.name, entry.attributes);
            } else {
                files.push_back(&entry);
            }
        }
        std::sort(files.begin(), files.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
        return compare_files(files);
    }

    /// After the last page.
    Result<void> end() {
        // A file beside a directory of its name: the directory is shown, as by a mount without a pack.
        for (const auto& [name, now] : directories_) {
            noted_.erase(name);
            const auto packed = find(name);
            if (!packed) return fail(packed.error());
            note(name, now, *packed);
        }
        return find_removed();
    }

    [[nodiscard]] std::size_t differing() const { return noted_.size(); }

    /// Once: adds what was found.
    Result<void> give(Changes& changes) {
        std::vector<std::string> gone;
        for (auto& [name, noted] : noted_) {
            changes.counts.added += noted.difference == Difference::added ? 1 : 0;
            changes.counts.changed += noted.difference == Difference::object ? 1 : 0;
            changes.counts.removed += noted.difference == Difference::removed ? 1 : 0;
            if (noted.was_directory) gone.push_back(path_of(name));
            changes.names()[key_of(path_, name)] = std::move(noted.name);
        }
        for (const auto& directory : gone) {
            if (auto counted = count_below(directory, changes.counts.removed); !counted) return counted;
        }
        return {};
    }

    [[nodiscard]] std::vector<std::string> directories() const {
        std::vector<std::string> paths;
        for (const auto& directory : directories_) paths.push_back(path_of(directory.first));
        return paths;
    }

  private:
    using Packed = std::optional<Attributes>;
    enum class Difference { attributes, object, added, removed };
    struct Noted {
        Changes::Name name;
        Difference difference = Difference::removed;
        bool was_directory = false;  ///< and is none any more
    };

    [[nodiscard]] std::string path_of(const std::string& name) const {
        return path_.empty() ? name : path_ + "/" + name;
    }

    Result<Packed> find(const std::string& name) {
        auto entry = index_.find(path_of(name));
        if (entry) return std::move(entry->attributes);
        if (is_gone(entry.error())) return std::nullopt;
        return fail(entry.error());
    }

    /// Both lists ascend: one pass over the pack's finds nearly all; what it does not find is looked up.
    Result<void> compare_files(const std::vector<const DirectoryEntry*>& files) {
        std::vector<Packed> packed(files.size());
        if (files.empty()) return {};
        std::size_t at = 0;
        auto listed = index_.list(path_, last_, [&](const Entry& entry) {
            while (at < files.size() && files[at]->name < entry.name) ++at;
            if (at == files.size()) return false;
            if (files[at]->name == entry.name) packed[at] = entry.attributes;
            return true;
        });
        if (!listed && !is_gone(listed.error())) return listed;
        last_ = files.back()->name;
        for (std::size_t i = 0; i < files.size(); ++i) {
            if (!packed[i]) {
                auto found = find(files[i]->name);
                if (!found) return fail(found.error());
                packed[i] = std::move(*found);
            }
            note(files[i]->name, files[i]->attributes, packed[i]);
        }
        return {};
    }

    void note(const std::string& name, const Attributes& now, const Packed& packed) {
        seen_.push_back(hash128(name));
        if (packed && is_same(now, *packed, owners_)) return;
        Noted noted{{now}, Difference::added, false};
        if (packed) {
            const bool same = is_same_object(now, *packed);
            noted.difference = same ? Difference::attributes : Difference::object;
            noted.was_directory = !same && packed->kind == ObjectKind::directory;
        }
        noted_[name] = std::move(noted);
    }

    Result<void> find_removed() {
        std::sort(seen_.begin(), seen_.end());
        auto listed = index_.list(path_, {}, [&](const Entry& entry) {
            if (!std::binary_search(seen_.begin(), seen_.end(), hash128(entry.name)))
                noted_[entry.name] = {
                    {}, Difference::removed, entry.attributes.kind == ObjectKind::directory};
            return true;
        });
        if (!listed && !is_gone(listed.error())) return listed;
        return {};
    }

    /// Names of the pack below a directory that is none any more.
    Result<void> count_below(const std::string& directory, std::uint64_t& count) {
        std::vector<std::string> directories{directory};
        while (!directories.empty()) {
            const auto path = std::move(directories.back());
            directories.pop_back();
            auto listed = index_.list(path, {}, [&](const Entry& entry) {
                ++count;
                if (entry.attributes.kind == ObjectKind::directory) directories.push_back(entry.path());
                return true;
            });
            if (!listed) return listed;
        }
        return {};
    }

    PackIndex& index_;
    const std::string path_;
    const bool owners_;
    std::map<std::string, Attributes> directories_;
    std::vector<ContentId> seen_;  ///< hashes of the names that are at the source
    std::string last_;             ///< of the page before
    std::map<std::string, Noted> noted_;
};

class Comparison {
  public:
    Comparison(PackIndex& index, Origin& source, const ComparisonOptions& options)
        : index_(index), source_(source), options_(options) {}

    Result<Changes> run() {
        if (auto compared = compare_root(); !compared) return fail(compared.error());
        walk_directories(
            options_.threads, [this] { return ended(); },
            [this](const auto& directory) { return visit(directory); });
        const MutexLock lock(mutex_);
        if (options_.stopped()) return fail(ECANCELED, "stopped");
        if (error_) return fail(std::move(*error_));
        if (changes_.too_many) changes_.names().clear();
        return std::move(changes_);
    }

  private:
    Result<void> compare_root() {
        auto now = source_.stat("");
        if (!now) return fail(now.error());
        const auto packed = index_.find("");
        if (!packed) return fail(packed.error());
        const MutexLock lock(mutex_);
        if (!is_same(*now, packed->attributes, options_.owners)) changes_.names()[""] = {std::move(*now)};
        return {};
    }

    bool ended() {
        const MutexLock lock(mutex_);
        return error_ || changes_.too_many || options_.stopped();
    }

    /// Names that may differ besides those that are known.
    std::size_t room() {
        const MutexLock lock(mutex_);
        return options_.most - std::min(options_.most, changes_.names().size());
    }

    std::vector<std::string> visit(const std::string& path) {
        Directory directory(index_, path, options_.owners);
        Changes found;
        auto listed = list(path, directory, room());
        if (listed) listed = directory.give(found);
        const MutexLock lock(mutex_);
        if (!listed && !error_) error_ = std::move(listed.error());
        take_in(found);
        return directory.directories();
    }

    void take_in(Changes& found) TIERFS_REQUIRES(mutex_) {
        changes_.names().merge(found.names());
        changes_.counts.changed += found.counts.changed;
        changes_.counts.added += found.counts.added;
        changes_.counts.removed += found.counts.removed;
        if (changes_.names().size() > options_.most) changes_.too_many = true;
    }

    /// Ends early with more than `room` names that differ.
    Result<void> list(const std::string& path, Directory& directory, std::size_t room) {
        auto listed = list_pages(source_, path, options_.stopped, [&](ListPage& page) -> Result<bool> {
            if (auto taken = directory.take_in(page); !taken) return fail(taken.error());
            return directory.differing() <= room;
        });
        const bool vanished = !listed && is_gone(listed.error()) && !path.empty();
        if (!listed && !vanished) return listed;
        if (directory.differing() > room) return {};
        return directory.end();
    }

    PackIndex& index_;
    Origin& source_;
    const ComparisonOptions& options_;
    Mutex mutex_;
    std::optional<Error> error_ TIERFS_GUARDED_BY(mutex_);
    Changes changes_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace

Result<Changes> compare(PackIndex& index, Origin& source, const ComparisonOptions& options) {
    return Comparison(index, source, options).run();
}

}  // namespace tierfs::pack
