#include "backends/origin/read_pool.hpp"

#include <algorithm>
#include <system_error>
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

std::size_t ReadPool::Shared::waiting_count() const {
    std::size_t sum = 0;
    for (const auto& queue : waiting) sum += queue.size();
    return sum;
}

std::size_t ReadPool::Shared::held_for(std::chrono::milliseconds time) const {
    const auto now = Clock::now();
    return static_cast<std::size_t>(std::count_if(
        busy_since.begin(), busy_since.end(),
        [&](Clock::time_point since) { return since != Clock::time_point::max() && now - since >= time; }));
}

ReadPool::ReadPool(unsigned least, unsigned most, std::chrono::milliseconds patience,
                   std::function<void(OriginRead&)> serve, std::shared_ptr<Reachability> reachability)
    : most_(std::max(least, most)), patience_(patience), shared_(std::make_shared<Shared>()) {
    shared_->serve = std::move(serve);
    shared_->reachability = std::move(reachability);
    try {
        {
            const MutexLock lock(shared_->mutex);
            for (unsigned i = 0; i < least; ++i) start_thread();
        }
        clock_ = std::thread([this] { watch_deadlines(); });
    } catch (...) {  // no more threads allowed: end those there are, or the process would
        stop();
        throw;
    }
}

void ReadPool::start_thread() {
    const auto number = shared_->busy_since.size();
    threads_.emplace_back([shared = shared_, number] { run(shared, number); });
    shared_->busy_since.push_back(Clock::time_point::max());
    ++shared_->alive;
}

// Threads that are busy for a moment are enough: more would wait for processors, or for the same disk.
void ReadPool::grow() {
    constexpr std::chrono::milliseconds kHeld{2};
    const auto threads = shared_->busy_since.size();
    if (threads >= most_ || 2 * shared_->held_for(kHeld) < threads) return;
    try {
        for (auto more = std::min<std::size_t>(shared_->waiting_count(), most_ - threads); more > 0; --more)
            start_thread();
    } catch (const std::system_error&) {
        return;  // not allowed: those there are come round to it
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
    const auto idle = std::count(busy.begin(), busy.end(), Clock::time_point::max());
    const bool is_first = !shared_->crowded && shared_->waiting_count() > static_cast<std::size_t>(idle);
    if (is_first) shared_->crowded = true;
    lock.unlock();  // the thread that is woken takes it first
    shared_->work.notify_one();
    if (is_first) shared_->changed.notify_all();
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
        // A request wakes this thread only where all others are busy: what comes while it sleeps is due `patience_`
        // later at the earliest.
        constexpr std::chrono::milliseconds kLook{5};
        auto earliest = Clock::now() + std::min<std::chrono::milliseconds>(patience_, Reachability::kSilence);
        for (const auto& queue : shared_->waiting) {
            if (!queue.empty()) earliest = std::min(earliest, queue.front().deadline);
        }
        if (shared_->crowded) earliest = std::min(earliest, Clock::now() + kLook);
        (void)lock.wait_until(shared_->changed, earliest);
        if (shared_->crowded && !shared_->stopped) grow();
        shared_->crowded = shared_->crowded && shared_->waiting_count() != 0;
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
