// A file system of one file whose every read and write takes a while, for a loop device that is slow.
//
//   slow-file IMAGE MOUNTPOINT     serves IMAGE as MOUNTPOINT/image, in the foreground, until it is unmounted
//
// Writing a number to MOUNTPOINT/delay_us says how many microseconds each answer takes from then on; requests wait
// beside each other, as many as the kernel sends.
#define FUSE_USE_VERSION 312

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr fuse_ino_t kImage = 2, kDelay = 3;
constexpr double kForever = 3600;
constexpr unsigned kMostAtOnce = 1024;

int image = -1;
std::atomic<long> delay_us{0};

/// Answers when their time has come.
class Answers {
  public:
    Answers() : thread_([this] { run(); }) {}
    ~Answers() {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    Answers(const Answers&) = delete;
    Answers& operator=(const Answers&) = delete;

    void give(Clock::time_point asked, std::function<void()> answer) {
        const auto due = asked + std::chrono::microseconds(delay_us.load());
        if (due <= Clock::now()) return answer();
        {
            const std::lock_guard lock(mutex_);
            waiting_.emplace(due, std::move(answer));
        }
        changed_.notify_all();
    }

  private:
    void run() {
        std::unique_lock lock(mutex_);
        while (!is_over_ || !waiting_.empty()) {
            if (waiting_.empty()) {
                changed_.wait(lock);
            } else if (const auto due = waiting_.begin()->first; due > Clock::now()) {
                changed_.wait_until(lock, due);
            } else {
                const auto answer = std::move(waiting_.begin()->second);
                waiting_.erase(waiting_.begin());
                lock.unlock();
                answer();
                lock.lock();
            }
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::multimap<Clock::time_point, std::function<void()>> waiting_;
    bool is_over_ = false;
    std::thread thread_;
};

Answers* answers = nullptr;

bool attributes_of(fuse_ino_t node, struct stat& found) {
    found = {};
    if (node == kImage && ::fstat(image, &found) != 0) return false;
    found.st_ino = node;
    found.st_nlink = 1;
    if (node == FUSE_ROOT_ID) found.st_mode = S_IFDIR | 0700;
    if (node == kDelay) found.st_mode = S_IFREG | 0600;
    return node <= kDelay;
}

void init(void* /*user*/, fuse_conn_info* connection) {
    connection->max_background = kMostAtOnce;
    connection->congestion_threshold = kMostAtOnce;
}

void look_up(fuse_req_t request, fuse_ino_t /*parent*/, const char* name) {
    fuse_entry_param entry{};
    entry.ino = std::strcmp(name, "image") == 0 ? kImage : std::strcmp(name, "delay_us") == 0 ? kDelay : 0;
    if (entry.ino == 0 || !attributes_of(entry.ino, entry.attr)) {
        ::fuse_reply_err(request, ENOENT);
        return;
    }
    entry.attr_timeout = entry.entry_timeout = kForever;
    ::fuse_reply_entry(request, &entry);
}

void get_attributes(fuse_req_t request, fuse_ino_t node, fuse_file_info* /*file*/) {
    struct stat found {};
    if (attributes_of(node, found)) {
        ::fuse_reply_attr(request, &found, kForever);
    } else {
        ::fuse_reply_err(request, ENOENT);
    }
}

void set_attributes(fuse_req_t request, fuse_ino_t node, struct stat* /*wanted*/, int /*which*/,
                    fuse_file_info* file) {
    get_attributes(request, node, file);  // a shell truncates what it writes a number to
}

void read(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* /*file*/) {
    if (node == kDelay) {
        ::fuse_reply_err(request, EACCES);
        return;
    }
    const auto asked = Clock::now();
    auto bytes = std::make_shared<std::vector<char>>(size);
    const ssize_t got = ::pread(image, bytes->data(), size, offset);
    const int error = errno;
    answers->give(asked, [request, bytes, got, error] {
        got < 0 ? ::fuse_reply_err(request, error)
                : ::fuse_reply_buf(request, bytes->data(), static_cast<size_t>(got));
    });
}

void write(fuse_req_t request, fuse_ino_t node, const char* data, size_t size, off_t offset,
           fuse_file_info* /*file*/) {
    const auto asked = Clock::now();
    if (node == kDelay) {
        delay_us = std::strtol(std::string(data, size).c_str(), nullptr, 10);
        ::fuse_reply_write(request, size);
        return;
    }
    const ssize_t put = ::pwrite(image, data, size, offset);
    const int error = errno;
    answers->give(asked, [request, put, error] {
        put < 0 ? ::fuse_reply_err(request, error) : ::fuse_reply_write(request, static_cast<size_t>(put));
    });
}

void sync(fuse_req_t request, fuse_ino_t /*node*/, int /*data_only*/, fuse_file_info* /*file*/) {
    ::fuse_reply_err(request, 0);  // nothing that is to outlive the machine
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        std::fputs("usage: slow-file IMAGE MOUNTPOINT\n", stderr);
        return 2;
    }
    image = ::open(words[1], O_RDWR | O_CLOEXEC);
    if (image < 0) {
        std::perror(words[1]);
        return 1;
    }
    fuse_lowlevel_ops table{};
    table.init = init;
    table.lookup = look_up;
    table.getattr = get_attributes;
    table.setattr = set_attributes;
    table.read = read;
    table.write = write;
    table.fsync = sync;
    std::string name = "slow-file", option = "-ofsname=slow-file";
    std::vector<char*> arguments{name.data(), option.data()};
    fuse_args args{static_cast<int>(arguments.size()), arguments.data(), 0};
    fuse_session* const session = ::fuse_session_new(&args, &table, sizeof(table), nullptr);
    if (session == nullptr || ::fuse_session_mount(session, words[2]) != 0) return 1;
    int result = 1;
    {
        Answers queue;
        answers = &queue;
        ::fuse_set_signal_handlers(session);
        result = ::fuse_session_loop_mt(session, nullptr);
    }
    ::fuse_session_unmount(session);
    ::fuse_session_destroy(session);
    return result == 0 ? 0 : 1;
}
