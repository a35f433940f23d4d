// Small files read in the order of their directory: the next ones are fetched ahead.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/origin/object.hpp"
#include "config/base/mutex.hpp"
#include "tiering/prefetch/directory_runs.hpp"
#include "tiering/prefetch/file_walk.hpp"

namespace tierfs {

/// Sees the reads of small files that came from the origin. Where of the latest four in one directory, not
/// long apart, at most one is out of the order of their names, it has the directory listed (on its own
/// thread, page by page, as far as runs get) and offers what DirectoryRuns wants.
///
/// A listing is trusted for `max_age`; of a large directory the part around its runs is held. At most
/// kDirectories directories with kFiles files in all. `listings` must outlive it. Thread-safe; `offer` is
/// called without a lock, by whoever calls `read`.
class Neighbours {
  public:
    using Clock = std::chrono::steady_clock;
    struct Options {
        std::uint64_t window = 0;  ///< bytes ahead of a run; 0: nothing is ever offered
        std::chrono::milliseconds max_age{60000};
    };
    /// False: not now, memory is short. Must not block.
    using Offer = std::function<bool(const std::shared_ptr<const ObjectRef>&)>;

    Neighbours(RecentListings& listings, const Options& options, Offer offer)
        : listings_(listings), options_(options), offer_(std::move(offer)) {}
    ~Neighbours();

    /// Once. `done` is called on the thread, as the last thing it does.
    void start(std::function<void()> done);
    /// Does not wait for the thread.
    void stop() TIERFS_EXCLUDES(mutex_);
    /// Puts a thread away that has ended: where others are held, the destructor is not called.
    void join_if_ended();

    void read(const ObjectRef& object, Clock::time_point now) TIERFS_EXCLUDES(mutex_);

  private:
    static constexpr std::size_t kEarly = 4;
    static constexpr std::size_t kWhileListing = 64;  ///< reads that wait to be numbered
    static constexpr std::uint64_t kRecently = 64;    ///< reads of all directories
    static constexpr std::size_t kDirectories = 32;
    static constexpr std::size_t kFiles = 32 * 1024;
    static constexpr std::size_t kFilesOfOne = 8 * 1024;
    static constexpr std::uint64_t kMostAhead = 512;  ///< files

    struct Early {
        std::string path;
        std::uint64_t read = 0;
    };
    struct Directory {
        std::string path;
        std::vector<Early> early;  ///< read before it was listed
        std::vector<ListedFile> files;
        std::unique_ptr<FileWalk> walk;  ///< null: nobody wants it listed
        std::uint64_t bytes = 0;         ///< of files
        bool wanted = false;             ///< a page more
        bool more = true;                ///< there is one
        DirectoryRuns runs;
        Clock::time_point listed;
    };
    using Directories = std::list<std::shared_ptr<Directory>>;

    std::shared_ptr<Directory> directory_of(std::string_view path, Clock::time_point now)
        TIERFS_REQUIRES(mutex_);
    [[nodiscard]] static bool is_promising(const std::vector<Early>& early);
    std::vector<ListedFile> observe(Directory& directory, const std::string& path,
                                    std::optional<DirectoryRuns::Wanted>& wanted) TIERFS_REQUIRES(mutex_);
    void run() TIERFS_EXCLUDES(mutex_);
    void add_page(Directory& directory, std::vector<ListedFile> files) TIERFS_REQUIRES(mutex_);
    void bound(const Directory* in_use) TIERFS_REQUIRES(mutex_);

    RecentListings& listings_;
    const Options options_;
    const Offer offer_;
    std::function<void()> done_;
    std::string identity_;

    Mutex mutex_;
    std::condition_variable wake_;
    bool stopped_ TIERFS_GUARDED_BY(mutex_) = false;
    std::uint64_t reads_ TIERFS_GUARDED_BY(mutex_) = 0;
    Directories directories_ TIERFS_GUARDED_BY(mutex_);  ///< most recently used first
    std::atomic<bool> ended_{false};                     ///< but for `done`
    std::thread thread_;
};

}  // namespace tierfs
