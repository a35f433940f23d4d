#include "config/base/log_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tierfs::log {

namespace {

constexpr auto kPeriod = std::chrono::seconds(1);

int open_to_append(const std::string& path) {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

bool is_same(const struct stat& one, const struct stat& other) {
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

std::uint64_t size_of(int file) {
    struct stat found {};
    return ::fstat(file, &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
}

bool lock(int file, short type) {
    struct flock all {};
    all.l_type = type;
    all.l_whence = SEEK_SET;
    return ::fcntl(file, F_SETLK, &all) == 0;
}

}  // namespace

LogFile::LogFile(std::string path, std::uint64_t max_size) : path_(std::move(path)), max_size_(max_size) {
    std::error_code ignored;
    const auto folder = std::filesystem::path(path_).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
    file_ = open_to_append(path_);
    if (file_ < 0) throw std::system_error(errno, std::generic_category());
    size_ = size_of(file_);
}

LogFile::~LogFile() {
    ::close(file_);
}

void LogFile::write(std::string_view line, Clock::time_point now) {
    if (now >= look_again_) {
        look_again_ = now + kPeriod;
        if (!lies_there()) reopen();
        size_ = size_of(file_);
    }
    if (max_size_ != 0 && size_ >= max_size_ && now >= put_aside_again_) {
        put_aside_again_ = now + kPeriod;
        put_aside();
    }
    while (!line.empty()) {
        const auto written = ::write(file_, line.data(), line.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        size_ += static_cast<std::uint64_t>(written);
        line.remove_prefix(static_cast<std::size_t>(written));
    }
}

bool LogFile::lies_there() const {
    struct stat ours {};
    struct stat there {};
    return ::fstat(file_, &ours) == 0 && ::stat(path_.c_str(), &there) == 0 && is_same(ours, there);
}

// Two processes that find the file full must not put it aside twice: the second would throw away the first's.
// So who moves it holds the lock of the file that it moves, and looks once more whether that one lies there.
// Nobody waits for the lock: its holder may be stopped. It is one of the process, since a daemon shares the
// descriptor that its supervisor opened.
void LogFile::put_aside() {
    if (!lock(file_, F_WRLCK)) return;
    struct stat ours {};
    struct stat there {};
    const bool is_ours = ::fstat(file_, &ours) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
                         S_ISREG(there.st_mode) && is_same(ours, there);
    const bool full = is_ours && static_cast<std::uint64_t>(ours.st_size) >= max_size_;
    const bool moved = full && ::rename(path_.c_str(), (path_ + ".1").c_str()) == 0;
    lock(file_, F_UNLCK);
    if (moved || !is_ours) reopen();
    size_ = size_of(file_);
}

/// False: the file that was open stays so.
bool LogFile::reopen() {
    const int file = open_to_append(path_);
    if (file < 0) return false;
    struct stat ours {};
    struct stat error {};
    if (::fstat(file_, &ours) == 0 && ::fstat(STDERR_FILENO, &error) == 0 && is_same(ours, error))
        ::dup2(file, STDERR_FILENO);
    ::close(file_);
    file_ = file;
    return true;
}

}  // namespace tierfs::log
