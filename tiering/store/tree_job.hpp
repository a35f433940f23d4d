// Something that is done to all files under some paths, in the background: `tierfs warm`, evict, pin, unpin.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/origin/object.hpp"
#include "backends/origin/origin.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"
#include "tiering/prefetch/file_walk.hpp"

namespace tierfs {

/// Walks the paths on a thread of its own, a directory's files before its subdirectories, and hands each file
/// to the action. Paths may be added while it runs, until `seal`. Names that are no files or directories are
/// left out, but for the given paths themselves.
///
/// Thread-safe. `origin` must outlive it, and the action until it has answered for all files.
class TreeJob {
  public:
    /// What was done for one file.
    struct Done {
        std::uint64_t brought = 0;  ///< bytes that were fetched, or given up
        bool unchanged = false;     ///< there was nothing to do
    };
    using Answer = std::function<void(Result<Done>)>;
    /// Called on the job's thread; may block it until `stopped` says true, which is asked during the call alone. Answers
    /// once, at any time and on any thread.
    using Action = std::function<void(const std::shared_ptr<const ObjectRef>&, Answer,
                                      const std::function<bool()>& stopped)>;

    /// What is done with the paths themselves, before any file is handed out; on the job's thread.
    struct Steps {
        /// A path is taken up: nothing, go on with it; or what was done, and that is all.
        std::function<Result<std::optional<Done>>(const std::string&)> enter = {};
        /// All regular files under a path were counted, with `space` of each added up: an error leaves it
        /// out. Empty: nothing is counted.
        std::function<Result<void>(const std::string&, std::uint64_t files, std::uint64_t bytes)> admit = {};
        std::function<std::uint64_t(std::uint64_t)> space = {};
        /// A file that has more bytes is left out, and the job ends before one with which all would have more; 0: no limit.
        std::uint64_t most_bytes = 0;
        /// After kUnsettled paths and after all: an error ends the job.
        std::function<Result<void>()> settle = {};
    };
    static constexpr std::size_t kUnsettled = 4096;

    static constexpr std::size_t kMostWaiting = 16 << 20;  ///< bytes of paths that wait to be walked
    static constexpr std::size_t kMostFailures = 20;       ///< that are named

    struct Failure {
        std::string path, message;
    };
    /// Counts since it began; bytes.
    struct Progress {
        bool running = true;
        std::uint64_t files = 0, bytes = 0;              ///< done with, whatever came of it
        std::uint64_t found_files = 0, found_bytes = 0;  ///< so far: the walk may still find more
        bool walking = true;                             ///< and will
        bool settled = false;                            ///< Steps are done with all paths
        std::uint64_t unlisted =
            0;  ///< paths that are there, as far as one can tell, and were not walked whole
        std::uint64_t brought = 0;
        std::uint64_t unchanged = 0, failed = 0;  ///< files (of failed: paths too)
        std::vector<Failure> failures;            ///< the first of them
    };

    /// `patience`: who names no path for so long, and does not seal, is taken to have gone.
    TreeJob(Origin& origin, Action action, std::chrono::milliseconds patience = std::chrono::minutes(1))
        : TreeJob(origin, std::move(action), Steps{}, patience) {}
    TreeJob(Origin& origin, Action action, Steps steps,
            std::chrono::milliseconds patience = std::chrono::minutes(1));
    ~TreeJob();
    TreeJob(const TreeJob&) = delete;
    TreeJob& operator=(const TreeJob&) = delete;

    /// False: too much waits already; try again later. A path is relative to the mount.
    bool add(std::string path) TIERFS_EXCLUDES(mutex_);
    /// No more paths come.
    void seal() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] Progress progress() const TIERFS_EXCLUDES(mutex_);
    /// Hands out no more files. Does not wait.
    void stop() TIERFS_EXCLUDES(mutex_);

  private:
    /// What answers write into; lives as long as one of them may come.
    struct State {
        mutable Mutex mutex;
        Progress progress TIERFS_GUARDED_BY(mutex);
        std::uint64_t under_way TIERFS_GUARDED_BY(mutex) = 0;
        void answered(const std::string& path, std::uint64_t size, const Result<Done>& result)
            TIERFS_EXCLUDES(mutex);
        void fail(const std::string& path, const Error& error) TIERFS_REQUIRES(mutex);
    };

    void run();
    bool next(std::string& path) TIERFS_EXCLUDES(mutex_);
    /// Whether the files of a path are to be handed out.
    bool enter(const std::string& path);
    bool settle();
    void walk(const std::string& path);
    /// Each regular file of a path; false when not all were seen, and that is noted.
    bool for_each_file(const std::string& path, const std::function<void(const ListedFile&)>& each);
    void failed(const std::string& path, const Error& error);
    void hand_out(const ListedFile& file);
    /// Whether the file, with all that were found before, is more than there is room for; that is noted once.
    bool is_too_much(const ListedFile& file);
    [[nodiscard]] bool stopping() const { return stopped_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool over() const { return is_full_ || stopping(); }

    Origin& origin_;
    const Action action_;
    const Steps steps_;
    const std::string identity_;
    const std::chrono::milliseconds patience_;
    const std::shared_ptr<State> state_;
    std::atomic<bool> stopped_{false};
    bool is_full_ = false;  ///< of the thread alone
    mutable Mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::string> waiting_ TIERFS_GUARDED_BY(mutex_);
    std::size_t waiting_bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool sealed_ TIERFS_GUARDED_BY(mutex_) = false;
    bool abandoned_ TIERFS_GUARDED_BY(mutex_) = false;
    std::thread thread_;  // last: starts when all else stands
};

}  // namespace tierfs
