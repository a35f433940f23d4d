#include "backends/dir/read_pool.hpp"

#include <utility>

namespace tierfs {

ReadPool::ReadPool(unsigned threads, std::function<void(OriginRead&)> serve) : serve_(std::move(serve)) {
    threads_.reserve(threads);
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

ReadPool::~ReadPool() {
    stop();
}

void ReadPool::submit(OriginRead request) {
    {
        const MutexLock lock(mutex_);
        if (!stopped_) {
            waiting_[static_cast<std::size_t>(request.priority)].push_back(std::move(request));
            wake_.notify_one();
            return;
        }
    }
    request.done(fail(ECANCELED, "the source is being closed"));
}

void ReadPool::stop() {
    std::array<std::deque<OriginRead>, 3> dropped;
    std::vector<std::thread> threads;
    {
        const MutexLock lock(mutex_);
        stopped_ = true;
        dropped.swap(waiting_);
        threads.swap(threads_);
    }
    wake_.notify_all();
    for (auto& queue : dropped) {
        for (auto& request : queue) request.done(fail(ECANCELED, "the source is being closed"));
    }
    for (auto& thread : threads) thread.join();
}

bool ReadPool::next(OriginRead& request) {
    MutexLock lock(mutex_);
    for (;;) {
        for (auto& queue : waiting_) {
            if (queue.empty()) continue;
            request = std::move(queue.front());
            queue.pop_front();
            return true;
        }
        if (stopped_) return false;
        lock.wait(wake_);
    }
}

void ReadPool::run() {
    OriginRead request;
    while (next(request)) {
        serve_(request);
        request = OriginRead{};  // what `done` holds must not live until the next request comes
    }
}

}  // namespace tierfs
