// How many threads a Session has, and how many of them may block; see session.hpp.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "fs/session/dying_thread.hpp"
#include "fs/session/session.hpp"

namespace tierfs {

void Session::call_for_more() {
    if (crowded_.exchange(true)) return;
    const MutexLock lock(mutex_);
    crowd_.notify_all();
}

// A thread that waits in its handler, for a device, a server or another thread, reads no requests, and those
// that come meanwhile wait with it. So whenever the last thread that slept gets a request, this one looks: as
// long as no thread sleeps and most of them wait, half as many more come. Threads that all compute are enough:
// more would only wait for processors. Those that are not needed for some seconds go again, each after the next
// request that it gets: a signal might find it in the middle of one. The kernel wakes the one that has slept longest,
// so that each has its turn.
void Session::keep_width() {
    constexpr auto kLook = std::chrono::microseconds(1000), kSeldom = 32 * kLook;
    constexpr auto kPause = std::chrono::milliseconds(8);
    constexpr auto kQuiet = std::chrono::seconds(2);
    for (;;) {
        {
            MutexLock lock(mutex_);
            const auto end = RequestInfo::Clock::now() + kQuiet;
            while (!crowded_ && !stopping_) {
                if (running_ <= least_) {
                    lock.wait(crowd_);
                } else if (lock.wait_until(crowd_, end) == std::cv_status::timeout) {
                    break;
                }
            }
        }
        if (stopping_) return;
        if (!crowded_.exchange(false)) {
            shrink();
            continue;
        }
        std::this_thread::sleep_for(kPause);  // where there are as many readers as threads each request calls
        for (auto look = kLook; !stopping_; look = std::min(2 * look, kSeldom)) {
            std::this_thread::sleep_for(look);
            if (reading_ != 0) break;
            if (most_wait() && grow()) look = kLook / 2;
        }
    }
}

bool Session::grow() {
    surplus_ = 0;
    bool started = false;
    unsigned more = std::max(1U, running_.load() / 2);
    for (std::size_t place = 0; place < busy_.size() && more > 0 && !stopping_; ++place) {
        if (busy_[place]->thread != 0) continue;
        if (threads_[place].joinable()) threads_[place].join();  // it has left
        if (!start_thread(place)) break;                         // not allowed
        started = true;
        --more;
    }
    return started;
}

void Session::shrink() {
    const unsigned idle = reading_.load(), running = running_.load();
    if (running <= least_ || idle <= least_) return;
    surplus_ = std::min(running - least_, idle - least_);
}

bool Session::is_to_leave() {
    if (reading_ == 0) return false;
    for (unsigned surplus = surplus_.load(); surplus > 0 && running_ > least_;) {
        if (surplus_.compare_exchange_weak(surplus, surplus - 1)) return true;
    }
    return false;
}

bool Session::most_wait() const {
    constexpr unsigned kLookedAt = 16;
    constexpr auto kLong = std::chrono::milliseconds(1);  // for a lock of ours, say
    const auto now = RequestInfo::Clock::now();
    unsigned looked_at = 0, waiting = 0;
    for (const auto& busy : busy_) {
        if (looked_at == kLookedAt) break;
        const auto since = busy->since.load(std::memory_order_acquire);
        if (since == 0) continue;
        ++looked_at;
        const bool is_long =
            now - RequestInfo::Clock::time_point(RequestInfo::Clock::duration(since)) >= kLong;
        waiting += is_long && is_asleep(busy->thread) ? 1 : 0;
    }
    return looked_at != 0 && 2 * waiting > looked_at;
}

// One thread is kept for what does not ask the source: answers that come, requests that are given up, the end.
bool Session::are_held(unsigned threads) const {
    const auto now = RequestInfo::Clock::now();
    unsigned held = 0;
    for (const auto& busy : busy_) {
        const auto since = busy->since.load(std::memory_order_acquire);
        if (since == 0 || takes_its_time(busy->opcode.load(std::memory_order_relaxed))) continue;
        const auto began = RequestInfo::Clock::time_point(RequestInfo::Clock::duration(since));
        held += now - began >= handlers_.patience ? 1 : 0;
    }
    return held >= threads;
}

int Session::take_turn(pid_t asker) {
    constexpr auto kLook = std::chrono::milliseconds(1), kLookAtAsker = std::chrono::milliseconds(250);
    const auto began = RequestInfo::Clock::now();
    auto next_look = began + kLookAtAsker;
    while (true) {
        // Of those that there are: whether more can come is not known. The first of a session that starts need not wait
        // for the second.
        const unsigned most = std::max(2U, running_.load()) - 1;
        for (unsigned now = blocking_.load(); now < most;) {
            if (blocking_.compare_exchange_weak(now, now + 1)) return 0;
        }
        const auto now = RequestInfo::Clock::now();
        if (stopping_.load()) return ETIMEDOUT;
        if (!handlers_.waits_for_ever && (now - began >= handlers_.patience || are_held(most)))
            return ETIMEDOUT;
        // Nobody else knows of the request yet.
        if (now >= next_look) {
            if (is_about_to_die(asker) || (handlers_.waits_for_ever && is_dying(asker))) return EINTR;
            next_look = now + kLookAtAsker;
        }
        std::this_thread::sleep_for(now - began < kLookAtAsker ? kLook : 10 * kLook);
    }
}

}  // namespace tierfs
