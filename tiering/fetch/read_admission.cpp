#include "tiering/fetch/read_admission.hpp"

#include <algorithm>
#include <utility>

namespace tierfs {

namespace {
/// "Forever" must not overflow a time point.
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
}  // namespace

ReadAdmission::ReadAdmission(std::chrono::milliseconds deadline) : deadline_(std::min(deadline, kLongest)) {}

ReadAdmission::~ReadAdmission() {
    stop();
}

void ReadAdmission::start(Start start, Expire expire) {
    start_ = std::move(start);
    expire_ = std::move(expire);
    thread_ = std::thread([this] { run(); });
}

bool ReadAdmission::enqueue(const ReadOperationPtr& operation) {
    MutexLock lock(mutex_);
    if (stopped_) return false;
    queue_.push_back(Waiting{operation, Clock::now() + deadline_});
    // Counted before the head is tried once more, so that memory freed meanwhile is not missed; and tried
    // once more, since this operation may have held memory for a moment while it was planned.
    waiting_.fetch_add(1);
    freed_ = true;
    changed_.notify_one();
    return true;
}

void ReadAdmission::memory_freed() noexcept {
    if (waiting_.load() == 0) return;
    MutexLock lock(mutex_);
    freed_ = true;
    changed_.notify_one();
}

void ReadAdmission::run() {
    MutexLock lock(mutex_);
    while (!stopped_) {
        if (queue_.empty()) {
            lock.wait(changed_);
            continue;
        }
        const Waiting head = queue_.front();
        freed_ = false;
        lock.unlock();
        const bool started = start_(head.operation);
        const bool expired = !started && Clock::now() >= head.deadline;
        if (expired) expire_(head.operation);
        lock.lock();
        if (started || expired) {
            queue_.pop_front();
            waiting_.fetch_sub(1);
            continue;
        }
        while (!freed_ && !stopped_ && Clock::now() < head.deadline) {
            lock.wait_until(changed_, head.deadline);
        }
    }
}

std::vector<ReadOperationPtr> ReadAdmission::stop() {
    {
        MutexLock lock(mutex_);
        stopped_ = true;
        changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
    std::vector<ReadOperationPtr> left;
    MutexLock lock(mutex_);
    for (Waiting& waiting : queue_) left.push_back(std::move(waiting.operation));
    waiting_.fetch_sub(static_cast<std::uint32_t>(queue_.size()));
    queue_.clear();
    return left;
}

}  // namespace tierfs
