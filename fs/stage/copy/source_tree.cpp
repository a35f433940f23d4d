#include "fs/stage/copy/source_tree.hpp"

#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "backends/origin/directory_walk.hpp"
#include "backends/origin/young_version.hpp"
#include "config/base/json_text.hpp"
#include "config/base/mutex.hpp"
#include "fs/stage/copy/destination.hpp"
#include "fs/stage/copy/manifest.hpp"
#include "fs/stage/copy/out.hpp"

namespace tierfs::stage {

namespace {

constexpr unsigned kListers = 8;

class Walk {
  public:
    Walk(Origin& origin, const std::function<bool()>& stopped) : origin_(origin), stopped_(stopped) {}

    Result<SourceTree> run() {
        walk_directories(
            kListers, [this] { return ended(); }, [this](const auto& folder) { return visit(folder); });
        const MutexLock lock(mutex_);
        if (root_error_) return fail(*root_error_);
        if (stopped_()) return fail(ECANCELED, "stopped");
        for (auto& file : tree_.files) outgrow(origin_, file.path, file.attributes, stopped_);
        const auto by_path = [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; };
        std::sort(tree_.files.begin(), tree_.files.end(), by_path);
        return std::move(tree_);
    }

  private:
    bool ended() {
        const MutexLock lock(mutex_);
        return root_error_ || stopped_();
    }

    std::vector<std::string> visit(const std::string& folder) {
        SourceTree found;
        std::vector<std::string> deeper;
        const auto listed = list(folder, found, deeper);
        const MutexLock lock(mutex_);
        if (!listed && folder.empty()) root_error_ = listed.error();
        if (!listed) found.problems.push_back(printable(folder) + ": " + listed.error().message);
        const auto move_to = [](auto& from, auto& to) {
            to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
        };
        move_to(found.files, tree_.files);
        move_to(found.problems, tree_.problems);
        move_to(found.remarks, tree_.remarks);
        return deeper;
    }

    Result<void> list(const std::string& folder, SourceTree& found, std::vector<std::string>& deeper) {
        std::set<std::string> folders;
        auto listed = list_pages(origin_, folder, stopped_, [&](ListPage& page) -> Result<bool> {
            for (auto& entry : page.entries) add(folder, entry, found, folders);
            for (const auto& [why, count] : page.hidden) {
                // A file that cannot be staged is missing in what is staged; a socket is not.
                auto& where = why.starts_with("file beside") ? found.problems : found.remarks;
                where.push_back(std::to_string(count) + " names in '" + printable(folder) +
                                "' are left out: " + why);
            }
            return true;
        });
        if (!listed) return listed;
        // A file beside a folder of its name: only one of them can be staged.
        const auto collides = [&](const SourceFile& file) {
            if (!folders.contains(file.path)) return false;
            found.problems.push_back("'" + printable(file.path) +
                                     "' is a file and a folder at the source: the file is left out");
            return true;
        };
        found.files.erase(std::remove_if(found.files.begin(), found.files.end(), collides),
                          found.files.end());
        deeper.assign(folders.begin(), folders.end());
        return {};
    }

    void add(const std::string& folder, DirectoryEntry& entry, SourceTree& found,
             std::set<std::string>& folders) {
        std::string path = folder.empty() ? entry.name : folder + "/" + entry.name;
        if (folder.empty() && (entry.name == kBooks || entry.name == kOutState)) {
            found.remarks.push_back("'" + entry.name +
                                    "' of the source is left out: these are its own books");
            return;
        }
        if (!is_clean_path(path)) {
            found.problems.push_back("'" + printable(path) + "' is no name for a file: left out");
            return;
        }
        switch (entry.attributes.kind) {
            case ObjectKind::directory:
                folders.insert(std::move(path));
                break;
            case ObjectKind::file:
                found.files.push_back({std::move(path), std::move(entry.attributes), {}});
                break;
            case ObjectKind::symlink:
                if (auto target = origin_.read_link(path)) {
                    found.files.push_back({std::move(path), std::move(entry.attributes), std::move(*target)});
                } else {
                    found.problems.push_back(target.error().message);
                }
                break;
        }
    }

    Origin& origin_;
    const std::function<bool()>& stopped_;
    Mutex mutex_;
    std::optional<Error> root_error_ TIERFS_GUARDED_BY(mutex_);
    SourceTree tree_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace

Result<SourceTree> list_source(Origin& origin, const std::function<bool()>& stopped) {
    return Walk(origin, stopped).run();
}

unsigned shard_of(const std::string& path, unsigned count) {
    return static_cast<unsigned>(XXH3_64bits(path.data(), path.size()) % count) + 1;
}

}  // namespace tierfs::stage
