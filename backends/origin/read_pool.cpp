#include "backends/origin/read_pool.hpp"

#include <algorithm>
#include <utility>

#include "config/base/delivery.hpp"

namespace tierfs {
namespace {

Result<void> closed() {
    return fail(ECANCELED, "the source is being closed");
}

Result<void> no_answer() {
    return fail(ETIMEDOUT, "the source directory does not answer in time: all of its threads wait");
}

}  // namespace

ReadPool::ReadPool(unsigned threads, std::chrono::milliseconds patience,
                   std::function<void(OriginRead&)> serve, std::shared_ptr<Reachability> reachability)
    : patience_(patience), shared_(std::make_shared<Shared>()) {
    shared_->serve = std::move(serve);
    shared_->reachability = std::move(reachability);
    {
        const MutexLock lock(shared_->mutex);
        shared_->busy_since.assign(threads, Clock::time_point::max());
        shared_->alive = threads;
    }
    threads_.reserve(threads);
    try {
        for (unsigned i = 0; i < threads; ++i)
            threads_.emplace_back([shared = shared_, i] { run(shared, i); });
        clock_ = std::thread([this] { watch_deadlines(); });
    } catch (...) {  // no more threads allowed: end those there are, or the process would
        {
            const MutexLock lock(shared_->mutex);
            shared_->alive = static_cast<unsigned>(threads_.size());
        }
        stop();
        throw;
    }
}

ReadPool::~ReadPool() {
    stop();
}

void ReadPool::submit(OriginRead request) {
    const auto now = Clock::now();
    MutexLock lock(shared_->mutex);
    auto& busy = shared_->busy_since;
    const bool all_held = std::all_of(busy.begin(), busy.end(), [&](Clock::time_point since) {
        return since != Clock::time_point::max() && now - since > patience_;
    });
    if (shared_->stopped || all_held) {
        auto refused = shared_->stopped ? closed() : no_answer();
        lock.unlock();
        return request.done(std::move(refused));
    }
    auto& queue = shared_->waiting.at(static_cast<std::size_t>(request.priority));
    queue.push_back({std::move(request), now + patience_});
    lock.unlock();  // the thread that is woken takes it first
    shared_->work.notify_one();
}

std::vector<OriginRead> ReadPool::take_overdue(Shared& shared, Clock::time_point now) {
    std::vector<OriginRead> overdue;
    for (auto& queue : shared.waiting) {
        while (!queue.empty() && queue.front().deadline <= now) {
            overdue.push_back(std::move(queue.front().request));
            queue.pop_front();
        }
    }
    return overdue;
}

void ReadPool::watch_deadlines() {
    MutexLock lock(shared_->mutex);
    while (!shared_->stopped) {
        // No request wakes this thread: what comes while it sleeps is due `patience_` later at the earliest.
        auto earliest = Clock::now() + std::min<std::chrono::milliseconds>(patience_, Reachability::kSilence);
        for (const auto& queue : shared_->waiting) {
            if (!queue.empty()) earliest = std::min(earliest, queue.front().deadline);
        }
        (void)lock.wait_until(shared_->changed, earliest);
        const auto now = Clock::now();
        auto overdue = take_overdue(*shared_, now);
        const bool is_held =
            std::any_of(shared_->busy_since.begin(), shared_->busy_since.end(), [&](Clock::time_point since) {
                return since != Clock::time_point::max() && now - since >= Reachability::kSilence;
            });
        if (is_held && shared_->reachability)
            shared_->reachability->failed("the source directory does not answer",
                                          Reachability::Failure::certain);
        lock.unlock();
        {
            const Delivery delivery;
            for (auto& request : overdue) request.done(no_answer());
            overdue.clear();
        }
        lock.lock();
    }
}

bool ReadPool::is_held() const {
    const MutexLock lock(shared_->mutex);
    return shared_->stopped && shared_->alive > 0;
}

void ReadPool::stop() {
    const auto deadline = Clock::now() + kStopPatience;
    std::array<std::deque<Waiting>, 3> dropped;
    std::vector<std::thread> threads;
    {
        const MutexLock lock(shared_->mutex);
        shared_->stopped = true;
        dropped.swap(shared_->waiting);
        threads.swap(threads_);
    }
    shared_->work.notify_all();
    shared_->changed.notify_all();
    for (auto& queue : dropped) {
        for (auto& waiting : queue) waiting.request.done(closed());
    }
    if (clock_.joinable()) clock_.join();
    bool held = false;
    {
        MutexLock lock(shared_->mutex);
        while (shared_->alive > 0) {
            if (lock.wait_until(shared_->changed, deadline) == std::cv_status::timeout) break;
        }
        held = shared_->alive > 0;
    }
    for (auto& thread : threads) held ? thread.detach() : thread.join();
}

bool ReadPool::next(Shared& shared, OriginRead& request, std::size_t number) {
    MutexLock lock(shared.mutex);
    shared.busy_since[number] = Clock::time_point::max();
    for (;;) {
        for (auto& queue : shared.waiting) {
            if (queue.empty()) continue;
            request = std::move(queue.front().request);
            queue.pop_front();
            shared.busy_since[number] = Clock::now();
            return true;
        }
        if (shared.stopped) return false;
        lock.wait(shared.work);
    }
}

void ReadPool::run(const std::shared_ptr<Shared>& shared, std::size_t number) {
    OriginRead request;
    while (next(*shared, request, number)) {
        const Delivery delivery;
        shared->serve(request);
        if (shared->reachability) shared->reachability->answered();
        request = OriginRead{};  // what `done` holds must not live until the next request comes
    }
    const MutexLock lock(shared->mutex);
    --shared->alive;
    shared->changed.notify_all();
}

}  // namespace tierfs
