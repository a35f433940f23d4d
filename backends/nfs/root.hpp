// The root of the export, found when it is first needed and again when the server has forgotten it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

#include "backends/nfs/client.hpp"
#include "backends/nfs/mounting.hpp"

namespace tierfs::nfs {

/// Thread-safe. Mounting blocks, so it is done by a thread of its own; who waits for it has a deadline.
class Root {
  public:
    /// Once, on any thread, possibly before get() returns. ETIMEDOUT: the deadline passed first.
    using Done = std::function<void(Result<Handle>)>;

    Root(MountRequest request, Client& client);
    ~Root();

    void get(Clock::time_point deadline, Done done);

    /// The server does not know this handle any more.
    void forget(const Handle& stale);

    /// As the server said; before the first mount what every server can do.
    [[nodiscard]] std::uint32_t read_size() const { return read_size_; }
    [[nodiscard]] std::uint32_t write_size() const { return write_size_; }

    /// Who waits gets ECANCELED. Idempotent.
    void stop();

    /// Mounts now, in the caller's thread.
    Result<void> mount(Clock::time_point deadline);

  private:
    struct Waiting {
        Clock::time_point deadline;
        Done done;
    };
    void run();
    void answer(const Error& problem);

    const MountRequest request_;
    Client& client_;
    std::atomic<std::uint32_t> read_size_ = 32768, write_size_ = 32768;

    Mutex mutex_;
    std::condition_variable changed_;
    Handle handle_ TIERFS_GUARDED_BY(mutex_);  ///< empty: not known
    std::deque<Waiting> waiting_ TIERFS_GUARDED_BY(mutex_);
    bool stopped_ TIERFS_GUARDED_BY(mutex_) = false;
    Mutex joining_;
    std::thread thread_ TIERFS_GUARDED_BY(joining_);
};

}  // namespace tierfs::nfs
