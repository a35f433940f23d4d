#include "tiering/ram/first_touch.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace tierfs {

namespace {

constexpr int kNice = 10;  // a tenth of the weight of nice 0
/// A step that takes longer has the host at work, which others wait for, too: a pause follows.
constexpr std::chrono::milliseconds kCheap{4};
constexpr int kPause = 9;  // times what it took
constexpr std::size_t kPage = 4096, kPiece = 2 << 20;

void touch(std::span<std::byte> memory) {
    while (::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) != 0) {
        if (errno == EINTR || errno == EAGAIN) continue;
        if (errno != EINVAL) return;  // whoever uses it finds out; EINVAL: Linux before 5.14
        for (std::size_t at = 0; at < memory.size(); at += kPage)
            *static_cast<volatile std::byte*>(&memory[at]) = std::byte{0};
        return;
    }
}

}  // namespace

/// A huge page at a time, not to keep others from the address space; the quickest of them tells what one costs.
std::chrono::nanoseconds make_resident(std::span<std::byte> memory) {
    auto least = std::chrono::nanoseconds::max();
    std::int64_t pieces = 0;
    for (std::size_t at = 0; at < memory.size(); at += kPiece, ++pieces) {
        const auto since = std::chrono::steady_clock::now();
        touch(memory.subspan(at, std::min(kPiece, memory.size() - at)));
        least = std::min<std::chrono::nanoseconds>(least, std::chrono::steady_clock::now() - since);
    }
    return pieces == 0 ? std::chrono::nanoseconds(0) : least * pieces;
}

FirstTouch::FirstTouch(Grow grow) : grow_(std::move(grow)) {
    try {
        thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {
        is_awake_ = true;  // nobody to be woken
    }
}

FirstTouch::~FirstTouch() {
    {
        const MutexLock lock(mutex_);
        is_over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void FirstTouch::wake() {
    if (is_awake_.load(std::memory_order_relaxed)) return;
    {
        const MutexLock lock(mutex_);
        is_awake_ = true;
    }
    changed_.notify_all();
}

void FirstTouch::run() {
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);  // of this thread
    MutexLock lock(mutex_);
    while (!is_over_) {
        if (!is_awake_) {
            lock.wait(changed_);
            continue;
        }
        // Whoever finds too little from here on wakes it again.
        is_awake_ = false;
        for (bool is_short = true; is_short && !is_over_;) {
            lock.unlock();
            const auto took = grow_();
            is_short = took.has_value();
            if (took) is_dear_ = *took >= kCheap;
            const auto end =
                Clock::now() + (took && *took >= kCheap ? kPause * *took : std::chrono::nanoseconds(0));
            lock.lock();
            while (is_short && !is_over_ && Clock::now() < end) lock.wait_until(changed_, end);
        }
    }
}

}  // namespace tierfs
