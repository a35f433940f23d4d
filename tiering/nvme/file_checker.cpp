#include "tiering/nvme/file_checker.hpp"

namespace tierfs {

void FileChecker::want(const File& file) {
    const MutexLock lock(mutex_);
    if (stopping_ || !known_.insert(file.id).second) return;
    waiting_.push_back(file);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_one();
}

void FileChecker::stop() {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;  // want() starts no thread any more
        waiting_.clear();
        changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
}

bool FileChecker::is_stopping() {
    const MutexLock lock(mutex_);
    return stopping_;
}

void FileChecker::run() {
    MutexLock lock(mutex_);
    while (!stopping_) {
        if (waiting_.empty()) {
            lock.wait(changed_);
            continue;
        }
        const File file = waiting_.front();
        waiting_.pop_front();
        lock.unlock();
        check_(file, [this] { return is_stopping(); });
        lock.lock();
        known_.erase(file.id);
    }
}

}  // namespace tierfs
