#include "fs/pack/tree.hpp"

#include <algorithm>
#include <iterator>

#include "backends/origin/directory_walk.hpp"
#include "backends/origin/young_version.hpp"
#include "config/base/json_text.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::pack {

namespace {

constexpr unsigned kListers = 16;

template <typename T>
void move_to(std::vector<T>& from, std::vector<T>& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

class Walk {
  public:
    Walk(Origin& origin, const std::function<bool()>& stopped)
        : origin_(origin), stopped_(stopped), has_owners_(origin.kind() != "s3") {}

    Result<Tree> run() {
        auto root = origin_.stat("");
        if (!root) return fail(root.error());
        walk_directories(
            kListers, [this] { return ended(); }, [this](const auto& directory) { return visit(directory); });
        const MutexLock lock(mutex_);
        if (root_error_) return fail(*root_error_);
        if (stopped_()) return fail(ECANCELED, "stopped");
        for (auto& entry : tree_.entries) outgrow(origin_, entry.path(), entry.attributes, stopped_);
        Entry entry;
        entry.attributes = std::move(*root);
        tree_.entries.push_back(clean(std::move(entry)));
        std::sort(tree_.entries.begin(), tree_.entries.end(), [](const Entry& a, const Entry& b) {
            return a.directory != b.directory ? key_of(a) < key_of(b) : a.name < b.name;
        });
        return std::move(tree_);
    }

  private:
    bool ended() {
        const MutexLock lock(mutex_);
        return root_error_ || stopped_();
    }

    std::vector<std::string> visit(const std::string& directory) {
        Tree found;
        const auto listed = list(directory, found);
        if (!listed) found.problems.push_back(listed.error().message);
        std::vector<std::string> below;
        for (const auto& entry : found.entries)
            if (entry.attributes.kind == ObjectKind::directory) below.push_back(entry.path());
        const MutexLock lock(mutex_);
        if (!listed && directory.empty()) root_error_ = listed.error();
        move_to(found.entries, tree_.entries);
        move_to(found.problems, tree_.problems);
        move_to(found.remarks, tree_.remarks);
        return below;
    }

    Result<void> list(const std::string& directory, Tree& found) {
        auto listed = list_pages(origin_, directory, stopped_, [&](ListPage& page) -> Result<bool> {
            for (auto& entry : page.entries) add(directory, entry, found);
            for (const auto& [why, count] : page.hidden)
                found.remarks.push_back(std::to_string(count) + " names in '" + printable(directory) +
                                        "' are left out: " + why);
            return true;
        });
        if (listed) drop_doubles(found);
        return listed;
    }

    void add(const std::string& directory, DirectoryEntry& listed, Tree& found) {
        Entry entry;
        entry.directory = directory;
        entry.name = std::move(listed.name);
        entry.attributes = std::move(listed.attributes);
        if (!is_clean_name(entry.name) || !is_clean_directory(entry.path())) {
            found.remarks.push_back("'" + printable(entry.path()) + "' is left out: no name for a file");
            return;
        }
        if (entry.attributes.kind == ObjectKind::symlink) {
            auto target = origin_.read_link(entry.path());
            if (!target) return found.problems.push_back(target.error().message);
            entry.link = std::move(*target);
        }
        found.entries.push_back(clean(std::move(entry)));
    }

    /// A file beside a directory of its name: the directory is shown, as by a mount without a pack.
    static void drop_doubles(Tree& found) {
        auto& entries = found.entries;
        std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
            const auto is_file = [](const Entry& entry) {
                return entry.attributes.kind != ObjectKind::directory;
            };
            return a.name != b.name ? a.name < b.name : is_file(a) < is_file(b);
        });
        const auto same = [](const Entry& a, const Entry& b) { return a.name == b.name; };
        const auto end = std::unique(entries.begin(), entries.end(), same);
        if (end != entries.end())
            found.remarks.push_back(std::to_string(entries.end() - end) + " files in '" +
                                    printable(entries.front().directory) +
                                    "' are left out: there are directories of their names");
        entries.erase(end, entries.end());
    }

    /// Owners and modes that the settings of whoever packs make up do not belong into a pack.
    [[nodiscard]] Entry clean(Entry entry) const {
        auto& attributes = entry.attributes;
        if (!has_owners_) attributes.mode = attributes.uid = attributes.gid = 0;
        return entry;
    }

    Origin& origin_;
    const std::function<bool()>& stopped_;
    const bool has_owners_;
    Mutex mutex_;
    std::optional<Error> root_error_ TIERFS_GUARDED_BY(mutex_);
    Tree tree_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace

Result<Tree> list_tree(Origin& origin, const std::function<bool()>& stopped) {
    return Walk(origin, stopped).run();
}

}  // namespace tierfs::pack
