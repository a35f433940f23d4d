// Tells the kernel what to forget.
#pragma once

#include <condition_variable>
#include <deque>
#include <string>
#include <thread>

#include "config/base/mutex.hpp"
#include "fs/metadata/namespace.hpp"

struct fuse_session;

namespace tierfs {

/// Sends FUSE_NOTIFY_INVAL_ENTRY and _INODE from a thread of its own: the kernel takes locks of the directory
/// for them, which a request that waits for an answer may hold, so a request's thread must never send one.
///
/// Thread-safe. Notices that come before attach() or after stop() are dropped: the kernel knows nothing yet,
/// or no longer. At most kMost wait; when more come the oldest are dropped, and the kernel's own time limits
/// (metadata.ttl) take care of them.
class Invalidator : public InvalidationSink {
  public:
    static constexpr std::size_t kMost = 65536;

    Invalidator() = default;
    ~Invalidator() override { stop(); }

    void entry_changed(NodeId parent, const std::string& name) override;
    void node_changed(NodeId node) override;

    /// Starts the thread. The session must outlive it, until stop().
    void attach(fuse_session* session);
    /// Ends the thread; idempotent. Requests in flight should have been answered, else it may wait for them.
    void stop();

  private:
    struct Notice {
        NodeId node = 0;
        std::string name;  ///< empty: the node itself
    };
    void add(Notice notice);
    void run(fuse_session* session);

    Mutex mutex_;
    std::condition_variable changed_;
    std::deque<Notice> notices_ TIERFS_GUARDED_BY(mutex_);
    bool attached_ TIERFS_GUARDED_BY(mutex_) = false;
    bool stopping_ TIERFS_GUARDED_BY(mutex_) = false;
    bool overrun_ TIERFS_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace tierfs
