#include "config/base/worker_pool.hpp"

#include <utility>

namespace tierfs {

WorkerPool::WorkerPool(unsigned threads) {
    MutexLock lock(stop_mutex_);
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

void WorkerPool::post(Job job) {
    {
        MutexLock lock(mutex_);
        if (!stopping_) {
            jobs_.push_back(std::move(job));
            work_.notify_one();
            return;
        }
    }
    job(true);
}

void WorkerPool::run() {
    for (;;) {
        Job job;
        {
            MutexLock lock(mutex_);
            while (jobs_.empty() && !stopping_) lock.wait(work_);
            if (stopping_) return;
            job = std::move(jobs_.front());
            jobs_.pop_front();
        }
        job(false);
    }
}

void WorkerPool::stop() {
    std::deque<Job> left;
    {
        MutexLock lock(mutex_);
        stopping_ = true;
        left.swap(jobs_);
        work_.notify_all();
    }
    for (Job& job : left) job(true);
    MutexLock lock(stop_mutex_);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

}  // namespace tierfs
