#include "tiering/nvme/health.hpp"

namespace tierfs {

bool Health::count_error(bool write) {
    const auto now = now_();
    while (!errors_.empty() && errors_.front() + kWindow < now) errors_.pop_front();
    if (errors_.empty()) read_errors_ = 0;
    errors_.push_back(now);
    if (errors_.size() > kLimit) errors_.pop_front();
    if (write) {
        ++writes_failed_in_row_;
    } else {
        ++read_errors_;
    }
    const State before = state_.load();
    if (errors_.size() >= kLimit || writes_failed_in_row_ >= kLimit) {
        state_ = State::down;
        if (read_errors_ > 0) reads_off_ = true;
    } else if (write && before == State::normal) {
        state_ = State::unstable;
    }
    return state_.load() != before;
}

bool Health::write_failed() {
    MutexLock lock(mutex_);
    pause_until_ = now_() + kPause;
    return count_error(true);
}

bool Health::read_failed() {
    MutexLock lock(mutex_);
    return count_error(false);
}

bool Health::write_succeeded() {
    if (state() == State::normal) return false;
    MutexLock lock(mutex_);
    writes_failed_in_row_ = 0;
    if (state_.load() != State::unstable) return false;
    state_ = State::normal;
    return true;
}

bool Health::may_write() const {
    const State now_state = state();
    if (now_state != State::unstable) return now_state == State::normal;
    MutexLock lock(mutex_);
    return now_() >= pause_until_;
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
