#include "fs/readwrite/file_users.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "fs/control/mountinfo.hpp"

namespace tierfs {

namespace fs = std::filesystem;

pid_t process_of(pid_t thread) {
    std::ifstream status("/proc/" + std::to_string(thread) + "/status");
    constexpr std::string_view kName = "Tgid:";
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(kName))
            return static_cast<pid_t>(std::strtol(line.c_str() + kName.size(), nullptr, 10));
    }
    return 0;
}

namespace {

constexpr std::size_t kMostDescendants = 1024;

/// Lines of "NAME:\tVALUE"; empty: there is no such line.
std::string field(const fs::path& file, std::string_view name) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
        const auto value = line.find_first_not_of(" \t", name.size() + 1);
        return value == std::string::npos ? std::string() : line.substr(value);
    }
    return {};
}

/// Of the mount with that id in the process's namespace; empty: it has none.
std::string device_of_mount(pid_t process, unsigned long id) {
    std::ifstream file("/proc/" + std::to_string(process) + "/mountinfo");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto mounts = parse_mountinfo(text);
    const auto found =
        std::find_if(mounts.begin(), mounts.end(), [id](const MountEntry& mount) { return mount.id == id; });
    return found == mounts.end() ? std::string() : found->device();
}

// Two mounts of one bucket have the same numbers for their files.
bool has_open_for_writing(pid_t process, const std::string& device, std::uint64_t inode) {
    std::error_code ended;
    for (fs::directory_iterator entry("/proc/" + std::to_string(process) + "/fdinfo", ended), end;
         !ended && entry != end; entry.increment(ended)) {
        if (std::strtoull(field(entry->path(), "ino").c_str(), nullptr, 10) != inode) continue;
        const auto flags = std::strtol(field(entry->path(), "flags").c_str(), nullptr, 8);
        if ((flags & O_ACCMODE) == O_RDONLY) continue;
        const auto mount = std::strtoul(field(entry->path(), "mnt_id").c_str(), nullptr, 10);
        if (device_of_mount(process, mount) == device) return true;
    }
    return false;
}

std::vector<pid_t> children_of(pid_t process) {
    std::vector<pid_t> children;
    std::error_code ended;
    for (fs::directory_iterator task("/proc/" + std::to_string(process) + "/task", ended), end;
         !ended && task != end; task.increment(ended)) {
        std::ifstream list(task->path() / "children");
        for (pid_t child = 0; list >> child;) children.push_back(child);
    }
    return children;
}

}  // namespace

bool is_open_for_writing_by(pid_t thread, const std::string& device, std::uint64_t inode) {
    const pid_t process = thread != 0 ? process_of(thread) : 0;
    if (process == 0) return false;
    std::vector<pid_t> look{process};
    for (std::size_t i = 0; i < look.size() && i < kMostDescendants; ++i) {
        if (has_open_for_writing(look[i], device, inode)) return true;
        for (const pid_t child : children_of(look[i])) look.push_back(child);
    }
    return false;
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

bool FileUsers::have_open_for_writing(const std::string& device, std::uint64_t inode) {
    std::vector<User> users;
    {
        const MutexLock lock(mutex_);
        users = users_;
    }
    return std::any_of(users.begin(), users.end(),
                       [&](const User& user) { return is_open_for_writing_by(user.process, device, inode); });
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
