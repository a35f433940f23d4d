#include "config/base/worker_pool.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace tierfs {

WorkerPool::WorkerPool(unsigned least, unsigned most, std::chrono::milliseconds idle)
    : least_(least), most_(std::max(least, most)), idle_for_(idle) {
    const MutexLock lock(mutex_);
    while (threads_.size() < least_) add_thread();
}

// The thread waits for the lock that its maker holds: it finds itself in the list.
void WorkerPool::add_thread() {
    const auto self = threads_.emplace(threads_.end());
    try {
        *self = std::thread([this, self] { run(self); });
    } catch (...) {
        threads_.erase(self);
        throw;
    }
}

void WorkerPool::post(Job job) {
    Threads ended;
    {
        MutexLock lock(mutex_);
        if (stopping_) {
            lock.unlock();
            return job(true);
        }
        jobs_.push_back(std::move(job));
        // One that was woken counts as idle until it has its job.
        if (jobs_.size() > idle_ && threads_.size() < most_) {
            try {
                add_thread();
            } catch (const std::system_error&) {  // no more are allowed: those there are come round to it
            }
        }
        work_.notify_one();
        ended.swap(ending_);
    }
    for (std::thread& thread : ended) thread.join();
}

std::optional<WorkerPool::Job> WorkerPool::next(Threads::iterator self) {
    MutexLock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + idle_for_;
    ++idle_;
    while (jobs_.empty() && !stopping_) {
        if (threads_.size() <= least_) {
            lock.wait(work_);
        } else if (lock.wait_until(work_, end) == std::cv_status::timeout && jobs_.empty() && !stopping_ &&
                   threads_.size() > least_) {
            --idle_;
            ending_.splice(ending_.end(), threads_, self);
            return std::nullopt;
        }
    }
    --idle_;
    if (stopping_) return std::nullopt;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
}

void WorkerPool::run(Threads::iterator self) {
    while (auto job = next(self)) (*job)(false);
}

void WorkerPool::stop() {
    const MutexLock once(stop_mutex_);
    std::deque<Job> left;
    Threads threads;
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
        left.swap(jobs_);
        threads.swap(threads_);
        threads.splice(threads.end(), ending_);
        work_.notify_all();
    }
    for (Job& job : left) job(true);
    for (std::thread& thread : threads) thread.join();
}

unsigned WorkerPool::threads() {
    const MutexLock lock(mutex_);
    return static_cast<unsigned>(threads_.size());
}

}  // namespace tierfs
