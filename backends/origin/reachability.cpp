#include "backends/origin/reachability.hpp"

#include "config/base/log.hpp"

namespace tierfs {

void Reachability::failed(const std::string& why, Failure failure) {
    const auto now = Clock::now();
    const MutexLock lock(mutex_);
    if (failures_++ == 0) since_ = now;
    is_troubled_ = true;
    const bool is_certain = failure == Failure::certain || (failures_ > 1 && now - since_ >= kDoubt);
    if (!is_certain && why_.empty()) return;
    why_ = why;
    if (is_told_ || (last_told_ != Clock::time_point::min() && now - last_told_ < kQuiet)) return;
    is_told_ = true;
    last_told_ = now;
    log::warning("the origin does not answer: " + why + "; what is not cached waits for it");
}

void Reachability::recover() {
    const MutexLock lock(mutex_);
    if (failures_ == 0) return;  // somebody else was faster
    if (is_told_) {
        const std::chrono::duration<double> away = Clock::now() - since_;
        log::warning("the origin answers again, after " +
                     std::to_string(static_cast<std::int64_t>(away.count())) + " s");
    }
    failures_ = 0;
    why_.clear();
    is_told_ = is_troubled_ = false;
}

Reachability::State Reachability::state() const {
    const MutexLock lock(mutex_);
    if (why_.empty()) return {};
    return {why_, Clock::now() - since_};
}

}  // namespace tierfs
