// Reads a whole dataset into the tiers in the background.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "backends/origin.hpp"
#include "config/mutex.hpp"
#include "tiering/object.hpp"

namespace tierfs {

/// Walks the origin once, a directory's files before its subdirectories, each in the order of their names,
/// and offers every file. Owns the thread that does it. Decides nothing and keeps nothing: whoever takes the
/// offers fetches what is missing, at Priority::fill, as fast as it likes.
///
/// A directory that vanished is left out; on any other error the walk ends and says so in the log. Ends by
/// itself when the tiers are full. `origin` must outlive it.
class DatasetFill {
  public:
    enum class Offered : std::uint8_t { taken, full };
    /// May block; ends soon after `stopping` says true.
    using Offer = std::function<Offered(const std::shared_ptr<const ObjectRef>&)>;

    DatasetFill(Origin& origin, Offer offer) : origin_(origin), offer_(std::move(offer)) {}
    ~DatasetFill();

    /// Once. `done` is called on the thread, as the last thing it does.
    void start(std::function<void()> done);
    /// Does not wait for the thread.
    void stop() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool stopping() const { return stopped_.load(std::memory_order_relaxed); }
    /// Waits; false when stopped.
    bool pause(std::chrono::milliseconds time) TIERFS_EXCLUDES(mutex_);

    /// Bytes of the files that were offered.
    [[nodiscard]] std::uint64_t offered_bytes() const { return bytes_.load(std::memory_order_relaxed); }

  private:
    void run();
    /// False: the walk is over.
    bool walk_directory(const std::string& path, std::vector<std::string>& folders);
    bool offer(const std::string& path, const Attributes& attributes);

    Origin& origin_;
    const Offer offer_;
    std::function<void()> done_;
    std::atomic<bool> stopped_{false};
    std::atomic<std::uint64_t> bytes_{0};
    unsigned refused_ = 0;  ///< in a row; of the thread alone
    Mutex mutex_;
    std::condition_variable wake_;
    std::thread thread_;
};

}  // namespace tierfs
