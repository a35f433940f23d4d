#include "backends/origin/directory_walk.hpp"

#include <condition_variable>
#include <iterator>
#include <string>
#include <thread>
#include <unordered_set>

#include "config/base/json_text.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

namespace {

/// Its threads take directories until there are none and nobody may find more.
class Walk {
  public:
    using Ended = std::function<bool()>;
    using Visit = std::function<std::vector<std::string>(const std::string&)>;

    Walk(const Ended& ended, const Visit& visit) : ended_(ended), visit_(visit) {
        directories_.emplace_back();
    }

    void work() {
        MutexLock lock(mutex_);
        for (;;) {
            while (directories_.empty() && busy_ > 0 && !is_over_) lock.wait(changed_);
            if (directories_.empty() || is_over_) break;
            const std::string directory = std::move(directories_.back());
            directories_.pop_back();
            ++busy_;
            lock.unlock();
            const bool is_over = ended_();
            std::vector<std::string> below;
            if (!is_over) below = visit_(directory);
            lock.lock();
            --busy_;
            is_over_ = is_over_ || is_over;
            std::move(below.begin(), below.end(), std::back_inserter(directories_));
            changed_.notify_all();
        }
    }

  private:
    const Ended& ended_;
    const Visit& visit_;
    Mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> directories_ TIERFS_GUARDED_BY(mutex_);  ///< to be visited
    unsigned busy_ TIERFS_GUARDED_BY(mutex_) = 0;                     ///< visits that go on
    bool is_over_ TIERFS_GUARDED_BY(mutex_) = false;
};

}  // namespace

void walk_directories(unsigned threads, const std::function<bool()>& ended,
                      const std::function<std::vector<std::string>(const std::string&)>& visit) {
    Walk walk(ended, visit);
    std::vector<std::thread> workers;
    workers.reserve(threads);
    for (unsigned i = 0; i < threads; ++i) workers.emplace_back([&walk] { walk.work(); });
    for (auto& worker : workers) worker.join();
}

Result<void> list_pages(Origin& origin, const std::string& directory, const std::function<bool()>& stopped,
                        const std::function<Result<bool>(ListPage&)>& each) {
    constexpr unsigned kMostEmpty = 1000;  // pages in a row; a bucket of many deleted keys may have some
    std::string token;
    std::unordered_set<std::string> first_names;  // of each page
    unsigned empty = 0;
    do {
        if (stopped()) return fail(ECANCELED, "stopped");
        auto page = origin.list(directory, token);
        if (!page) return fail(page.error());
        // Else this would go on for ever.
        empty = page->entries.empty() ? empty + 1 : 0;
        const bool is_again =
            !page->entries.empty() && !first_names.insert(page->entries.front().name).second;
        if (!page->next.empty() && (page->next == token || is_again || empty == kMostEmpty))
            return fail(EIO, "'" + printable(directory) + "': the source gives the same page again");
        token = page->next;
        const auto more = each(*page);
        if (!more) return fail(more.error());
        if (!*more) break;
    } while (!token.empty());
    return {};
}

}  // namespace tierfs
