#include "fs/readwrite/file_users.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace tierfs {

pid_t process_of(pid_t thread) {
    std::ifstream status("/proc/" + std::to_string(thread) + "/status");
    constexpr std::string_view kName = "Tgid:";
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(kName))
            return static_cast<pid_t>(std::strtol(line.c_str() + kName.size(), nullptr, 10));
    }
    return 0;
}

void FileUsers::add(pid_t thread) {
    {
        const MutexLock lock(mutex_);
        if (is_anybody_ || std::any_of(users_.begin(), users_.end(),
                                       [=](const User& user) { return user.thread == thread; }))
            return;
    }
    const pid_t process = thread != 0 ? process_of(thread) : 0;
    const MutexLock lock(mutex_);
    is_anybody_ = process == 0 || users_.size() >= kMost;
    if (!is_anybody_) users_.push_back({thread, process});
}

bool FileUsers::has(pid_t thread) {
    {
        const MutexLock lock(mutex_);
        if (is_anybody_ || users_.empty()) return true;
    }
    const pid_t process = thread != 0 ? process_of(thread) : 0;
    const MutexLock lock(mutex_);
    return process == 0 || std::any_of(users_.begin(), users_.end(),
                                       [=](const User& user) { return user.process == process; });
}

}  // namespace tierfs
