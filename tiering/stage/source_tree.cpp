#include "tiering/stage/source_tree.hpp"

#include <xxhash.h>

#include <algorithm>
#include <condition_variable>
#include <optional>
#include <set>
#include <thread>

#include "config/mutex.hpp"
#include "tiering/stage/destination.hpp"
#include "tiering/stage/json_text.hpp"
#include "tiering/stage/manifest.hpp"
#include "tiering/stage/out.hpp"

namespace tierfs::stage {

namespace {

constexpr unsigned kListers = 8;

/// One walk. Its threads take folders from `folders_` until there are none and nobody may find more.
class Walk {
  public:
    Walk(Origin& origin, const std::function<bool()>& stopped) : origin_(origin), stopped_(stopped) {
        folders_.emplace_back("");
    }

    Result<SourceTree> run() {
        std::vector<std::thread> threads;
        threads.reserve(kListers);
        for (unsigned i = 0; i < kListers; ++i) threads.emplace_back([this] { work(); });
        for (auto& thread : threads) thread.join();
        const MutexLock lock(mutex_);
        if (root_error_) return fail(*root_error_);
        if (stopped_()) return fail(ECANCELED, "stopped");
        const auto by_path = [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; };
        std::sort(tree_.files.begin(), tree_.files.end(), by_path);
        return std::move(tree_);
    }

  private:
    void work() {
        MutexLock lock(mutex_);
        for (;;) {
            while (folders_.empty() && busy_ > 0) lock.wait(changed_);
            if (folders_.empty() || stopped_() || root_error_) break;
            const std::string folder = std::move(folders_.back());
            folders_.pop_back();
            ++busy_;
            lock.unlock();
            SourceTree found;
            std::vector<std::string> deeper;
            const auto listed = list(folder, found, deeper);
            lock.lock();
            --busy_;
            take(folder, listed, found, deeper);
            changed_.notify_all();
        }
        changed_.notify_all();
    }

    void take(const std::string& folder, const Result<void>& listed, SourceTree& found,
              std::vector<std::string>& deeper) TIERFS_REQUIRES(mutex_) {
        if (!listed && folder.empty()) root_error_ = listed.error();
        if (!listed) found.problems.push_back(printable(folder) + ": " + listed.error().message);
        const auto move_to = [](auto& from, auto& to) {
            to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
        };
        move_to(found.files, tree_.files);
        move_to(found.problems, tree_.problems);
        move_to(found.remarks, tree_.remarks);
        move_to(deeper, folders_);
    }

    Result<void> list(const std::string& folder, SourceTree& found, std::vector<std::string>& deeper) {
        std::set<std::string> folders;
        std::string token;
        do {
            if (stopped_()) return fail(ECANCELED, "stopped");
            auto page = origin_.list(folder, token);
            if (!page) return fail(page.error());
            for (auto& entry : page->entries) add(folder, entry, found, folders);
            for (const auto& [why, count] : page->hidden) {
                // A file that cannot be staged is missing in what is staged; a socket is not.
                auto& where = why.starts_with("file beside") ? found.problems : found.remarks;
                where.push_back(std::to_string(count) + " names in '" + printable(folder) +
                                "' are left out: " + why);
            }
            token = std::move(page->next);
        } while (!token.empty());
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
    std::condition_variable changed_;
    std::vector<std::string> folders_ TIERFS_GUARDED_BY(mutex_);
    unsigned busy_ TIERFS_GUARDED_BY(mutex_) = 0;
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
