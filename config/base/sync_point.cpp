#include "config/base/sync_point.hpp"

#ifdef TIERFS_TEST_POINTS

#include <atomic>
#include <condition_variable>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "config/base/mutex.hpp"

namespace tierfs {

/// Shared by the script and by the threads that are at its points: they may leave after it ended.
struct SyncScript::State {
    using Clock = std::chrono::steady_clock;

    explicit State(std::chrono::milliseconds wait_limit) : limit(wait_limit) {}

    void pass(std::string_view name) TIERFS_EXCLUDES(mutex);

    const std::chrono::milliseconds limit;
    Mutex mutex;
    std::condition_variable changed;
    bool ended TIERFS_GUARDED_BY(mutex) = false;
    std::size_t in_callbacks TIERFS_GUARDED_BY(mutex) = 0;
    std::map<std::string, std::set<std::string>, std::less<>> waits_for TIERFS_GUARDED_BY(mutex);
    std::map<std::string, std::function<void(std::size_t)>, std::less<>> callbacks TIERFS_GUARDED_BY(mutex);
    std::map<std::string, std::size_t, std::less<>> reached TIERFS_GUARDED_BY(mutex);
    std::map<std::string, std::size_t, std::less<>> passed TIERFS_GUARDED_BY(mutex);
    std::vector<std::string> failures TIERFS_GUARDED_BY(mutex);
};

namespace {

/// Of the process, since the points are: which script is loaded. Only in test builds.
struct Loaded {
    Mutex mutex;
    std::shared_ptr<SyncScript::State> state TIERFS_GUARDED_BY(mutex);
    std::atomic<bool> any{false};
};

Loaded& loaded() {
    static Loaded instance;
    return instance;
}

}  // namespace

void SyncScript::State::pass(std::string_view name) {
    MutexLock lock(mutex);
    const std::string point(name);
    const std::size_t number = ++reached[point];
    changed.notify_all();
    const auto deadline = Clock::now() + limit;
    const auto found = waits_for.find(name);
    const std::set<std::string> needed = found == waits_for.end() ? std::set<std::string>() : found->second;
    for (const std::string& first : needed) {
        while (!ended && passed[first] == 0) {
            if (lock.wait_until(changed, deadline) != std::cv_status::timeout || passed[first] != 0) continue;
            failures.push_back(point + " waited too long for " + first);
            break;
        }
    }
    const auto callback = callbacks.find(name);
    if (!ended && callback != callbacks.end()) {
        const auto call = callback->second;
        ++in_callbacks;
        lock.unlock();
        call(number);
        lock.lock();
        --in_callbacks;
    }
    ++passed[point];
    changed.notify_all();
}

SyncScript::SyncScript(std::chrono::milliseconds limit) : state_(std::make_shared<State>(limit)) {
    MutexLock lock(loaded().mutex);
    if (loaded().state) throw std::logic_error("two scripts of sync points at a time");
    loaded().state = state_;
    loaded().any = true;
}

SyncScript::~SyncScript() {
    {
        MutexLock lock(loaded().mutex);
        loaded().any = false;
        loaded().state = nullptr;
    }
    MutexLock lock(state_->mutex);
    state_->ended = true;
    state_->changed.notify_all();
    while (state_->in_callbacks > 0) lock.wait(state_->changed);
}

void SyncScript::order(std::string_view first, std::string_view second) {
    MutexLock lock(state_->mutex);
    state_->waits_for[std::string(second)].emplace(first);
}

void SyncScript::at(std::string_view point, std::function<void(std::size_t)> callback) {
    MutexLock lock(state_->mutex);
    state_->callbacks[std::string(point)] = std::move(callback);
}

void SyncScript::once(std::string_view point, std::function<void()> callback) {
    at(point, [call = std::move(callback)](std::size_t number) {
        if (number == 1) call();
    });
}

bool SyncScript::await(std::string_view point) {
    const auto deadline = State::Clock::now() + state_->limit;
    MutexLock lock(state_->mutex);
    const std::string name(point);
    while (state_->reached[name] == 0) {
        if (lock.wait_until(state_->changed, deadline) != std::cv_status::timeout) continue;
        if (state_->reached[name] != 0) break;
        state_->failures.push_back("nobody came to " + name);
        return false;
    }
    return true;
}

std::size_t SyncScript::passed(std::string_view point) const {
    MutexLock lock(state_->mutex);
    const auto found = state_->passed.find(point);
    return found == state_->passed.end() ? 0 : found->second;
}

std::vector<std::string> SyncScript::failures() const {
    MutexLock lock(state_->mutex);
    return state_->failures;
}

void pass_sync_point(std::string_view name) {
    if (!loaded().any.load(std::memory_order_acquire)) return;
    std::shared_ptr<SyncScript::State> state;
    {
        MutexLock lock(loaded().mutex);
        state = loaded().state;
    }
    if (state) state->pass(name);
}

}  // namespace tierfs

#endif
