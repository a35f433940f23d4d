// Keeps an eye on the source of a pack: compares it with the pack again and again, in the background.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/pack/comparison.hpp"
#include "backends/pack/staleness.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::pack {

struct SourceWatchOptions {
    ComparisonOptions comparison;        ///< without `stopped`
    std::chrono::milliseconds every{0};  ///< from the end of one to the begin of the next, at least
    std::string kept;                    ///< the file that the changes are kept in
    std::string shown;                   ///< the source, for the log
};

/// One comparison when it starts, and the next ones after `every`, but ten times as long as the last one took
/// at least: no more than a tenth of the time is spent on it. After one that failed, which the log is told
/// once, the changes stay what they were, and the next begins within a minute. Where too many names differ,
/// none follows.
///
/// Thread-safe. `index` and `source` outlive it; the source is stopped before stop().
class SourceWatch {
  public:
    using Told = std::function<void(const Renewed&)>;

    /// Goes on with the changes that were kept, if any.
    SourceWatch(PackIndex& index, Origin& source, SourceWatchOptions options);
    ~SourceWatch() { stop(); }
    SourceWatch(const SourceWatch&) = delete;
    SourceWatch& operator=(const SourceWatch&) = delete;

    /// `told` is called on the watch's thread, after changes() has changed, until stop() returns. Once.
    void start(Told told);
    /// Ends what is under way. begin_stop() does not wait for it. Idempotent.
    void begin_stop();
    void stop();

    /// Never null.
    [[nodiscard]] std::shared_ptr<const Changes> changes() const TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] ComparisonStats stats() const TIERFS_EXCLUDES(mutex_);

  private:
    using Clock = std::chrono::steady_clock;

    void run();
    void compare_once();
    void take_in(Changes now, double took_s);
    void failed(const Error& error);
    void tell(const Changes& before, const Changes& now);
    void keep(const Changes& now) const;
    [[nodiscard]] std::chrono::milliseconds pause() const TIERFS_REQUIRES(mutex_);
    /// Whether a name leads to the same object as before.
    [[nodiscard]] bool is_same_before(const std::string& key, const Changes& before,
                                      const Changes& now) const;

    PackIndex& index_;
    Origin& source_;
    const SourceWatchOptions options_;
    Told told_;
    std::atomic<bool> stopping_{false};
    mutable Mutex mutex_;
    std::condition_variable stopped_;
    std::shared_ptr<const Changes> changes_ TIERFS_GUARDED_BY(mutex_);
    ComparisonStats stats_ TIERFS_GUARDED_BY(mutex_);
    std::thread thread_;
};

}  // namespace tierfs::pack
