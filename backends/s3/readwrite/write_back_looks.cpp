// Waiting for the queue of a write-back mount, and looking at it: see write_back.hpp.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>

#include "backends/s3/readwrite/write_back.hpp"
#include "config/base/time.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::chrono::nanoseconds kSetClock{20'000'000};  // by less than that clocks drift, or are coarse

std::int64_t now_ns(clockid_t clock) {
    timespec now{};
    (void)::clock_gettime(clock, &now);
    return to_ns(now.tv_sec, now.tv_nsec);
}

std::int64_t clock_offset_ns() {
    return now_ns(CLOCK_REALTIME) - now_ns(CLOCK_BOOTTIME);
}

}  // namespace

void WriteBack::note_time(Entry& entry) {
    if (entry.acknowledged_ns != 0) return;  // of what it has taken the place of
    entry.acknowledged_ns = now_ns(CLOCK_REALTIME_COARSE);
    entry.clock_offset_ns = clock_offset_ns();
}

// Those that are done do not matter, and of the others the latest that somebody may have known of does.
std::uint64_t WriteBack::last_before(std::int64_t time_ns) {
    const auto offset = clock_offset_ns();
    const MutexLock lock(mutex_);
    for (auto at = entries_.rbegin(); at != entries_.rend(); ++at) {
        const auto& entry = *at->second;
        const bool is_clock_set = std::abs(offset - entry.clock_offset_ns) > kSetClock.count();
        const bool is_later = entry.acknowledged_ns > time_ns + kSetClock.count();
        if (is_clock_set || !is_later) return at->first;
    }
    return 0;
}

std::uint64_t WriteBack::hurry() {
    const MutexLock lock(mutex_);
    const auto now = Clock::now();
    for (const auto& [sequence, entry] : entries_) {
        if (entry->failures == 0) entry->due = std::min(entry->due, now);
    }
    if (!entries_.empty()) begin_thread();
    changed_.notify_all();
    return last_.load(std::memory_order_acquire);
}

Result<void> WriteBack::stopped_or_done() const {
    return is_stopping_ ? fail(ECANCELED, "the mount ends") : Result<void>();
}

Result<void> WriteBack::wait_for(std::uint64_t sequence, Clock::time_point deadline) {
    MutexLock lock(mutex_);
    while (!is_stopping_ && oldest() <= sequence) {
        if (lock.wait_until(changed_, deadline) == std::cv_status::timeout && Clock::now() >= deadline)
            return fail(ETIMEDOUT, std::to_string(entries_.size()) +
                                       " changes made before are still to be brought to the bucket");
    }
    return stopped_or_done();
}

Result<void> WriteBack::wait_for(const EntryPtr& entry, Clock::time_point deadline) {
    MutexLock lock(mutex_);
    while (!is_stopping_ && entry->state != Entry::State::done) {
        if (lock.wait_until(changed_, deadline) == std::cv_status::timeout && Clock::now() >= deadline)
            return fail(ETIMEDOUT, entry->record.path + " is still to be brought to the bucket");
    }
    return stopped_or_done();
}

bool WriteBack::wait_for_any(Clock::time_point deadline) {
    MutexLock lock(mutex_);
    const auto before = done_;
    while (!is_stopping_ && done_ == before && !entries_.empty()) {
        if (lock.wait_until(changed_, deadline) == std::cv_status::timeout && Clock::now() >= deadline)
            return false;
    }
    return !is_stopping_;
}

PosixQueue WriteBack::figures(Clock::time_point now) {
    const MutexLock lock(mutex_);
    PosixQueue figures;
    figures.entries = entries_.size();
    figures.bytes = bytes_;
    figures.running = running_;
    figures.conflicts = conflicts_;
    figures.done = done_;
    figures.done_to = oldest() - 1;
    for (const auto& [sequence, entry] : entries_) {
        figures.oldest_s =
            std::max(figures.oldest_s, std::chrono::duration<double>(now - entry->since).count());
        if (figures.error.empty() && entry->failures != 0) figures.error = entry->error;
    }
    const bool waits = figures.error.empty() && !entries_.empty() && waits_ && waits_();
    if (waits) figures.error = "the bucket does not answer, and nothing is begun until it does";
    return figures;
}

}  // namespace tierfs::s3
