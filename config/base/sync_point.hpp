// Sync points: named places in the code where a test decides which thread goes first.
//
// A race that needs two threads to meet within a microsecond is a test that passes for years. A sync point
// makes the rare order the only one: the test says "B waits until A was passed", or does something itself
// while a thread stands there. RocksDB's tests work so (https://github.com/facebook/rocksdb,
// test_util/sync_point.h); the code here is our own.
//
// Without TIERFS_TEST_POINTS nothing is compiled. With it and without a script, a point costs one look at an
// atomic. A point must not stand under a lock: what waits there would hold it.
#pragma once

#ifdef TIERFS_TEST_POINTS

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#define TIERFS_SYNC_POINT(name) ::tierfs::pass_sync_point(name)

namespace tierfs {

/// What a test wants of the sync points, from its construction to its destruction. One at a time in a process
/// (std::logic_error). Thread-safe.
///
/// Whoever waits at a point longer than the limit goes on, and `failures` tells: a wrong script fails its
/// test rather than hangs it. The destructor lets all go that wait, and returns when no thread is in a
/// callback: declare a script after what its callbacks use.
class SyncScript {
  public:
    explicit SyncScript(std::chrono::milliseconds limit = std::chrono::seconds(60));
    ~SyncScript();
    SyncScript(const SyncScript&) = delete;
    SyncScript& operator=(const SyncScript&) = delete;

    /// Whoever comes to `second` waits there until some thread has passed `first` once.
    void order(std::string_view first, std::string_view second);

    /// Called by each thread that passes the point, after what it waits for; `number` counts from 1.
    void at(std::string_view point, std::function<void(std::size_t number)> callback);
    /// Only by the first that passes.
    void once(std::string_view point, std::function<void()> callback);

    /// Waits until some thread has come to the point (it may still wait there); false: not within the limit.
    bool await(std::string_view point);
    [[nodiscard]] std::size_t passed(std::string_view point) const;

    /// One line for each wait that ran into the limit.
    [[nodiscard]] std::vector<std::string> failures() const;

    struct State;

  private:
    std::shared_ptr<State> state_;
};

/// For TIERFS_SYNC_POINT.
void pass_sync_point(std::string_view name);

}  // namespace tierfs

#else

#define TIERFS_SYNC_POINT(name) static_cast<void>(0)

#endif
