#include "tiering/prefetch/fill_pace.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace tierfs {
namespace {

/// Where nobody asks meanwhile a pause does not hold the fill for longer.
constexpr std::chrono::milliseconds kLongestProbe{200};
/// However much readers find, the others wait ten times as long at most.
constexpr double kMostFound = 0.9;

/// 2: the median; 4: the lower quartile.
std::chrono::nanoseconds least_of(std::size_t parts, std::span<const std::chrono::nanoseconds> values) {
    std::vector<std::chrono::nanoseconds> sorted(values.begin(), values.end());
    const auto place = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / parts);
    std::nth_element(sorted.begin(), place, sorted.end());
    return *place;
}

}  // namespace

void FillPace::asked(std::uint64_t bytes) {
    MutexLock lock(mutex_);
    ++asked_;
    asked_bytes_ += bytes;
    if (asked_ - asked_before_ < kFirst) return;
    const double lately =
        static_cast<double>(found_ - found_before_) / static_cast<double>(asked_ - asked_before_);
    share_found_ = std::min(kMostFound, (share_found_ + std::min(1.0, lately)) / 2);
    asked_before_ = asked_;
    found_before_ = found_;
}

void FillPace::found(std::uint64_t files) {
    MutexLock lock(mutex_);
    found_ += files;
}

FillPace::Wait FillPace::quiet_wait() const {
    return least_of(4, std::span(quiet_).first(std::min(quiet_count_, kQuiet)));
}

void FillPace::waits(Request& request) {
    MutexLock lock(mutex_);
    ++waiting_;
    request.before = sent_;
}

void FillPace::answered(const Request& request, Clock::time_point now, bool failed) {
    MutexLock lock(mutex_);
    --waiting_;
    answered_ = now;
    if (failed || request.has_others) return;
    const Wait wait = now - request.sent;
    if (request.fill == 0) {
        if (request.before != sent_) return;  // the fill began behind it
        quiet_[quiet_count_++ % kQuiet] = wait;
        if (probe_left_ > 0 && --probe_left_ == 0) changed_ = now;
        return;
    }
    if (request.sent < changed_ || probe_left_ > 0) return;  // not of this window
    ++since_probe_;
    beside_[beside_count_++] = wait;
    if (beside_count_ == kVerdict) judge(now);
}

void FillPace::judge(Clock::time_point now) {
    last_beside_ = least_of(2, beside_);
    beside_count_ = 0;
    if (quiet_count_ == 0) return pause(now);
    const double bearable = static_cast<double>(quiet_wait().count()) * kCost / (1 - share_found_);
    const double waited = static_cast<double>(std::max<std::int64_t>(last_beside_.count(), 1));
    if (waited <= bearable) {
        grow(now);
        if (until_probe_ > kUntilProbe) return;
    } else {
        leaps_ = false;
        const double less = std::clamp(bearable / waited, 0.25, 0.9);
        set_window(static_cast<std::uint64_t>(static_cast<double>(window_) * less), now);
    }
    if (since_probe_ < until_probe_) return;
    until_probe_ = std::min(until_probe_ * 2, kMostUntilProbe);
    pause(now);
}

void FillPace::pause(Clock::time_point now) {
    since_probe_ = 0;
    probe_left_ = kProbe;
    probe_since_ = now;
}

void FillPace::grow(Clock::time_point now) {
    set_window(leaps_ ? window_ * 4 : window_ + std::max<std::uint64_t>(1, window_ / 2), now);
}

void FillPace::set_window(std::uint64_t window, Clock::time_point now) {
    const auto clamped = std::clamp<std::uint64_t>(window, 1, limits_.most);
    if (std::exchange(window_, clamped) == clamped) return;
    beside_count_ = 0;
    changed_ = now;
}

bool FillPace::is_probing(Clock::time_point now) {
    if (probe_left_ > 0 && now - probe_since_ > kLongestProbe) {
        probe_left_ = 0;
        changed_ = now;
    }
    return probe_left_ > 0;
}

bool FillPace::may_send(std::uint64_t under_way, Clock::time_point now) {
    if (under_way >= limits_.most) return false;
    MutexLock lock(mutex_);
    if (limits_.times > 0 && sent_ >= limits_.times * asked_) return false;
    if (!limits_.all) {
        if (asked_ < kFirst && (sent_ >= kAhead * asked_ || sent_bytes_ >= kAhead * asked_bytes_))
            return false;
        if (is_probing(now)) return false;
        if (changed_ == Clock::time_point{}) changed_ = now;
        if (waiting_ == 0 && now - std::max({answered_, changed_, grown_}) >= kIdle) {
            grown_ = now;
            grow(now);
        }
        if (under_way >= window_) return false;
    }
    return true;
}

void FillPace::sent(std::uint64_t files, std::uint64_t bytes) {
    MutexLock lock(mutex_);
    sent_ += files;
    sent_bytes_ += bytes;
}

FillPace::Status FillPace::status() const {
    MutexLock lock(mutex_);
    Status status{limits_.all ? limits_.most : window_, asked_, sent_, found_, Wait{0}, last_beside_};
    if (quiet_count_ > 0) status.quiet = quiet_wait();
    return status;
}

}  // namespace tierfs
