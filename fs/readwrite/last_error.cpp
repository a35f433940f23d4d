#include "fs/readwrite/last_error.hpp"

#include <utility>

namespace tierfs {

void LastError::set(std::string text) {
    const MutexLock lock(mutex_);
    ++count_;
    text_ = std::move(text);
    at_ = std::chrono::steady_clock::now();
}

LastError::Told LastError::get() {
    const MutexLock lock(mutex_);
    const std::chrono::duration<double> age = std::chrono::steady_clock::now() - at_;
    return {count_, text_, text_.empty() ? 0 : age.count()};
}

}  // namespace tierfs
