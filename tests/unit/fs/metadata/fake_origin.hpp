// An origin in memory that counts its requests and can be made to wait, fail and change.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/origin/origin.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

class FakeOrigin final : public Origin {
  public:
    explicit FakeOrigin(std::uint64_t stats_worth_listing = 1) : worth_(stats_worth_listing) {
        entries_[""] = directory_attributes(1);
    }

    // What is there. Parents are made as needed, as an object store does.
    void put(const std::string& path, const std::string& version, std::uint64_t size = 7) {
        MutexLock lock(mutex_);
        make_parents(path);
        Attributes file;
        file.size = size;
        file.version = version;
        file.mtime_ns = 1000;
        entries_[path] = file;
    }
    void put_directory(const std::string& path, std::int64_t mtime_ns = 1) {
        MutexLock lock(mutex_);
        make_parents(path);
        entries_[path] = directory_attributes(mtime_ns);
    }
    void put_link(const std::string& path, const std::string& target) {
        MutexLock lock(mutex_);
        make_parents(path);
        Attributes link;
        link.kind = ObjectKind::symlink;
        link.version = "link:" + target;
        link.size = target.size();
        entries_[path] = link;
        links_[path] = target;
    }
    /// With all below.
    void remove(const std::string& path) {
        MutexLock lock(mutex_);
        entries_.erase(path);
        std::erase_if(entries_, [&](const auto& entry) { return entry.first.starts_with(path + "/"); });
    }
    std::map<std::string, Attributes> tree() {
        MutexLock lock(mutex_);
        return entries_;
    }

    // How it behaves.
    void set_page_size(std::size_t entries) {
        MutexLock lock(mutex_);
        page_size_ = entries;
    }
    /// Called when a page but the first of a listing is asked for.
    void before_next_pages(std::function<void()> call) {
        MutexLock lock(mutex_);
        before_next_pages_ = std::move(call);
    }
    /// From now on every request fails so; 0: none.
    void fail_with(int code) {
        MutexLock lock(mutex_);
        failure_ = code;
    }
    /// The next listings are these pages, one a call, whatever the tree says.
    void script(std::vector<ListPage> pages) {
        MutexLock lock(mutex_);
        for (std::size_t i = 0; i < pages.size(); ++i) {
            pages[i].next = i + 1 < pages.size() ? "page" + std::to_string(i + 1) : "";
            script_.push_back(std::move(pages[i]));
        }
    }
    /// Every page, of every directory, says that it is followed by the same page.
    void repeat_pages(bool repeat) {
        MutexLock lock(mutex_);
        repeat_pages_ = repeat;
    }
    /// Each listing is the same page again and again, each time with a token that never was.
    void go_round(bool round) {
        MutexLock lock(mutex_);
        go_round_ = round;
    }
    /// Pages after the first fail with EIO.
    void fail_second_pages(bool fail) {
        MutexLock lock(mutex_);
        fail_second_pages_ = fail;
    }
    /// It is known not to answer, for that reason; empty: it does.
    void set_away(const std::string& why) {
        MutexLock lock(mutex_);
        away_ = why;
    }
    /// Each request takes so long.
    void take(std::chrono::milliseconds time) {
        MutexLock lock(mutex_);
        takes_ = time;
    }
    /// Requests wait until `release`.
    void hold() {
        MutexLock lock(mutex_);
        held_ = true;
    }
    void release() {
        MutexLock lock(mutex_);
        held_ = false;
        changed_.notify_all();
    }
    /// Waits until that many requests wait.
    void await_waiting(std::size_t count) {
        MutexLock lock(mutex_);
        while (waiting_ < count) lock.wait(changed_);
    }

    std::size_t stats_of(const std::string& path) {
        MutexLock lock(mutex_);
        return stat_calls_[path];
    }
    std::size_t lists_of(const std::string& path) {
        MutexLock lock(mutex_);
        return list_calls_[path];
    }
    std::size_t requests() {
        MutexLock lock(mutex_);
        return requests_;
    }

    // Origin
    [[nodiscard]] std::string identity() const override { return "fake:/"; }
    [[nodiscard]] std::string kind() const override { return "fake"; }
    Result<void> check() override { return {}; }
    [[nodiscard]] std::uint64_t stats_worth_listing(const std::string&) const override { return worth_; }

    Result<Attributes> stat(const std::string& path) override {
        MutexLock lock(mutex_);
        ++stat_calls_[path];
        if (auto ready = enter(lock); !ready) return fail(ready.error());
        const auto found = entries_.find(path);
        if (found == entries_.end()) return fail(ENOENT, "fake: no " + path);
        return found->second;
    }

    Result<ListPage> list(const std::string& path, const std::string& token) override {
        MutexLock lock(mutex_);
        ++list_calls_[path];
        if (!token.empty() && before_next_pages_) before_next_pages_();
        if (auto ready = enter(lock); !ready) return fail(ready.error());
        if (!token.empty() && fail_second_pages_) return fail(EIO, "fake: no second page");
        if (repeat_pages_) return ListPage{{}, "again", {}};
        if (go_round_)
            return ListPage{{{"same", directory_attributes(1)}}, "token " + std::to_string(++tokens_), {}};
        if (!script_.empty()) {
            ListPage page = std::move(script_.front());
            script_.pop_front();
            return page;
        }
        const auto found = entries_.find(path);
        if (found == entries_.end()) return fail(ENOENT, "fake: no " + path);
        if (found->second.kind != ObjectKind::directory) return fail(ENOTDIR, "fake: " + path);
        ListPage page;
        const std::string prefix = path.empty() ? "" : path + "/";
        for (auto it = entries_.upper_bound(prefix + token); it != entries_.end(); ++it) {
            if (!it->first.starts_with(prefix)) break;
            const std::string name = it->first.substr(prefix.size());
            if (name.empty() || name.find('/') != std::string::npos || name <= token) continue;
            if (page.entries.size() == page_size_) {
                page.next = page.entries.back().name;
                break;
            }
            page.entries.push_back({name, it->second});
        }
        return page;
    }

    Result<std::string> read_link(const std::string& path) override {
        MutexLock lock(mutex_);
        if (auto ready = enter(lock); !ready) return fail(ready.error());
        const auto found = links_.find(path);
        if (found == links_.end()) return fail(ENOENT, "fake: no link " + path);
        return found->second;
    }

    void read(OriginRead request) override { request.done(fail(EIO, "fake: no data")); }
    [[nodiscard]] OriginStats stats() const override {
        MutexLock lock(mutex_);
        OriginStats stats;
        stats.reach.why = away_;
        return stats;
    }

    void stop() override {
        MutexLock lock(mutex_);
        stopped_ = true;
        changed_.notify_all();
    }

  private:
    static Attributes directory_attributes(std::int64_t mtime_ns) {
        Attributes directory;
        directory.kind = ObjectKind::directory;
        directory.mode = 0555;
        directory.mtime_ns = mtime_ns;
        return directory;
    }
    void make_parents(const std::string& path) TIERFS_REQUIRES(mutex_) {
        for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
            Attributes& parent = entries_[path.substr(0, slash)];
            if (parent.kind != ObjectKind::directory) parent = directory_attributes(1);
        }
    }
    Result<void> enter(MutexLock& lock) TIERFS_REQUIRES(mutex_) {
        ++requests_;
        ++waiting_;
        changed_.notify_all();
        while (held_ && !stopped_) lock.wait(changed_);
        --waiting_;
        const auto until = std::chrono::steady_clock::now() + takes_;
        while (!stopped_ && std::chrono::steady_clock::now() < until) (void)lock.wait_until(changed_, until);
        if (stopped_) return fail(ECANCELED, "fake: stopped");
        if (failure_ != 0) return fail(failure_, "fake: failing");
        return {};
    }

    const std::uint64_t worth_;
    mutable Mutex mutex_;
    std::string away_ TIERFS_GUARDED_BY(mutex_);
    std::condition_variable changed_;
    std::map<std::string, Attributes> entries_ TIERFS_GUARDED_BY(mutex_);
    std::map<std::string, std::string> links_ TIERFS_GUARDED_BY(mutex_);
    std::map<std::string, std::size_t> stat_calls_ TIERFS_GUARDED_BY(mutex_);
    std::map<std::string, std::size_t> list_calls_ TIERFS_GUARDED_BY(mutex_);
    std::deque<ListPage> script_ TIERFS_GUARDED_BY(mutex_);
    std::size_t requests_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::size_t waiting_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::function<void()> before_next_pages_ TIERFS_GUARDED_BY(mutex_);
    std::size_t page_size_ TIERFS_GUARDED_BY(mutex_) = 1000;
    int failure_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::chrono::milliseconds takes_ TIERFS_GUARDED_BY(mutex_){0};
    bool repeat_pages_ TIERFS_GUARDED_BY(mutex_) = false;
    bool go_round_ TIERFS_GUARDED_BY(mutex_) = false;
    unsigned tokens_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool fail_second_pages_ TIERFS_GUARDED_BY(mutex_) = false;
    bool held_ TIERFS_GUARDED_BY(mutex_) = false;
    bool stopped_ TIERFS_GUARDED_BY(mutex_) = false;
};

}  // namespace tierfs
