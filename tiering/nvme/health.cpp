#include "tiering/nvme/health.hpp"

namespace tierfs {

bool Health::enter(State state, const std::string& reason) {
    if (state_.load() == state) return false;
    state_ = state;
    reason_ = reason;
    return true;
}

bool Health::count_error(const std::string& reason, bool write, bool counts) {
    const auto now = now_();
    while (!errors_.empty() && errors_.front() + kWindow < now) errors_.pop_front();
    if (errors_.empty()) read_errors_ = 0;
    if (counts) errors_.push_back(now);
    if (errors_.size() > kLimit) errors_.pop_front();
    if (counts && write) ++writes_failed_in_row_;
    if (!write) ++read_errors_;
    if (state_.load() == State::down || errors_.size() >= kLimit || writes_failed_in_row_ >= kLimit) {
        if (read_errors_ > 0) reads_off_ = true;
        return enter(State::down, reason);
    }
    const bool many_reads = !write && errors_.size() >= kUnstable;
    if (many_reads) until_recovered_ = true;
    if ((write || many_reads) && state_.load() == State::normal) return enter(State::unstable, reason);
    return false;
}

bool Health::write_failed(const std::string& reason, bool full) {
    MutexLock lock(mutex_);
    pause_until_ = now_() + kPause;
    return count_error(reason, true, !full);
}

bool Health::read_failed(const std::string& reason) {
    MutexLock lock(mutex_);
    return count_error(reason, false, true);
}

bool Health::write_succeeded() {
    if (state() == State::normal) return false;
    MutexLock lock(mutex_);
    writes_failed_in_row_ = 0;
    if (state_.load() != State::unstable || until_recovered_) return false;
    return enter(State::normal, "");
}

bool Health::degrade(const std::string& reason) {
    MutexLock lock(mutex_);
    until_recovered_ = true;
    return state_.load() == State::normal && enter(State::unstable, reason);
}

bool Health::give_up(const std::string& reason) {
    MutexLock lock(mutex_);
    reads_off_ = true;
    return enter(State::down, reason);
}

bool Health::recovered() {
    MutexLock lock(mutex_);
    errors_.clear();
    read_errors_ = 0;
    writes_failed_in_row_ = 0;
    until_recovered_ = false;
    reads_off_ = false;
    return enter(State::normal, "");
}

bool Health::may_write() const {
    const State now_state = state();
    if (now_state != State::unstable) return now_state == State::normal;
    MutexLock lock(mutex_);
    return !until_recovered_ && now_() >= pause_until_;
}

bool Health::is_pausing() const {
    if (state() != State::unstable) return false;
    MutexLock lock(mutex_);
    return !until_recovered_ && now_() < pause_until_;
}

std::string Health::reason() const {
    MutexLock lock(mutex_);
    return reason_;
}

const char* Health::state_name() const {
    switch (state()) {
        case State::normal:
            return "normal";
        case State::unstable:
            return "unstable";
        case State::down:
            break;
    }
    return "down";
}

}  // namespace tierfs
