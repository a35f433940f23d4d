#include "fs/session/invalidator.hpp"

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"

namespace tierfs {

void Invalidator::entry_changed(NodeId parent, const std::string& name) {
    if (!name.empty()) add(Notice{parent, name});
}

void Invalidator::node_changed(NodeId node) {
    add(Notice{node, {}});
}

void Invalidator::add(Notice notice) {
    const MutexLock lock(mutex_);
    if (!attached_ || stopping_) return;
    if (notices_.size() >= kMost) {
        notices_.pop_front();
        if (!overrun_)
            log::warning("more changes than the kernel is told of in time: metadata.ttl covers them");
        overrun_ = true;
    }
    notices_.push_back(std::move(notice));
    changed_.notify_one();
}

void Invalidator::attach(fuse_session* session) {
    {
        const MutexLock lock(mutex_);
        attached_ = true;
    }
    thread_ = std::thread([this, session] { run(session); });
}

void Invalidator::stop() {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
        notices_.clear();
        changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
}

void Invalidator::run(fuse_session* session) {
    MutexLock lock(mutex_);
    while (!stopping_) {
        if (notices_.empty()) {
            lock.wait(changed_);
            continue;
        }
        const Notice notice = std::move(notices_.front());
        notices_.pop_front();
        lock.unlock();
        // ENOENT: the kernel did not know it, so there was nothing to forget.
        if (TIERFS_FAULT("fuse.notify") != 0) {
            // metadata.ttl covers it
        } else if (notice.name.empty()) {
            ::fuse_lowlevel_notify_inval_inode(session, notice.node, 0, 0);
        } else {
            ::fuse_lowlevel_notify_inval_entry(session, notice.node, notice.name.data(), notice.name.size());
        }
        lock.lock();
    }
}

}  // namespace tierfs
