// Verifies backing files of earlier sessions whole, in the background. Internal to tiering/nvme.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <unordered_set>

#include "backends/origin/object.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

/// One file after the other, by one thread. Who reads a file past the tier gets no checksum verified, so a
/// file that this process did not write is read through once before. Thread-safe.
class FileChecker {
  public:
    struct File {
        ContentId id;
        std::uint64_t size = 0;
        std::uint64_t generation = 0;
    };
    /// Verifies a file; returns early once `stopping` says so. Runs on the thread.
    using Check = std::function<void(const File&, const std::function<bool()>& stopping)>;

    explicit FileChecker(Check check) : check_(std::move(check)) {}
    ~FileChecker() { stop(); }
    FileChecker(const FileChecker&) = delete;
    FileChecker& operator=(const FileChecker&) = delete;

    /// Queues a file, unless it waits already or is under way.
    void want(const File& file);
    /// Ends the thread after the piece it reads; idempotent.
    void stop();

  private:
    void run();
    bool is_stopping();

    const Check check_;
    Mutex mutex_;
    std::condition_variable changed_;
    std::deque<File> waiting_ TIERFS_GUARDED_BY(mutex_);
    std::unordered_set<ContentId> known_ TIERFS_GUARDED_BY(mutex_);  ///< waiting or under way
    bool stopping_ TIERFS_GUARDED_BY(mutex_) = false;
    std::thread thread_;  ///< started with the first file; set under the lock
};

}  // namespace tierfs
