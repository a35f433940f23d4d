#include "backends/nfs/root.hpp"

#include <algorithm>

#include "config/base/delivery.hpp"

namespace tierfs::nfs {
namespace {

constexpr std::uint32_t kMostRead = 1 << 20, kLeastRead = 4096;
constexpr std::chrono::milliseconds kAttempt{3000}, kBetweenAttempts{200};

std::uint32_t offered(std::uint32_t most) {
    return std::clamp(most / kLeastRead * kLeastRead, kLeastRead, kMostRead);
}

}  // namespace

Root::Root(MountRequest request, Client& client)
    : request_(std::move(request)), client_(client), thread_([this] { run(); }) {}

Root::~Root() {
    stop();
}

void Root::get(Clock::time_point deadline, Done done) {
    MutexLock lock(mutex_);
    if (stopped_ || !handle_.empty()) {
        Result<Handle> answer = handle_;
        if (stopped_) answer = fail(ECANCELED, "the NFS client has been stopped");
        lock.unlock();
        return done(std::move(answer));
    }
    waiting_.push_back(Waiting{deadline, std::move(done)});
    changed_.notify_all();
}

void Root::forget(const Handle& stale) {
    const MutexLock lock(mutex_);
    if (handle_ == stale) handle_.clear();
}

Result<void> Root::mount(Clock::time_point deadline) {
    auto mounted = mount_export(request_, deadline);
    if (!mounted) return fail(mounted.error().within("nfs://" + request_.hosts.front() + request_.path));
    read_size_ = offered(mounted->sizes.read_most);
    write_size_ = offered(mounted->sizes.write_most);
    client_.set_addresses(mounted->addresses);
    const MutexLock lock(mutex_);
    handle_ = mounted->root;
    changed_.notify_all();
    return {};
}

void Root::run() {
    for (;;) {
        {
            MutexLock lock(mutex_);
            while (!stopped_ && waiting_.empty()) lock.wait(changed_);
            if (stopped_) break;
            if (!handle_.empty()) {
                lock.unlock();
                answer(Error{EIO, ""});
                continue;
            }
        }
        const auto mounted = mount(Clock::now() + kAttempt);
        answer(mounted ? Error{EIO, ""} : mounted.error());
        MutexLock lock(mutex_);
        if (!mounted && !stopped_) lock.wait_for(changed_, kBetweenAttempts);
    }
    answer(Error{ECANCELED, "the NFS client has been stopped"});
}

/// Those who can be answered: all when the root is known, when the server says no or after stop(), else those
/// whose deadline has passed.
void Root::answer(const Error& problem) {
    std::vector<Done> ready;
    Handle handle;
    const bool is_final = problem.code == EACCES || problem.code == ENOENT || problem.code == EOPNOTSUPP;
    {
        const MutexLock lock(mutex_);
        handle = handle_;
        const auto now = Clock::now();
        for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
            if (handle.empty() && !stopped_ && !is_final && waiting->deadline > now) {
                ++waiting;
                continue;
            }
            ready.push_back(std::move(waiting->done));
            waiting = waiting_.erase(waiting);
        }
    }
    const Delivery delivery;
    for (const auto& done : ready) {
        if (!handle.empty()) {
            done(handle);
        } else {
            const bool is_late = !is_final && problem.code != ECANCELED;
            done(fail(is_late ? ETIMEDOUT : problem.code, problem.message));
        }
    }
}

void Root::stop() {
    {
        const MutexLock lock(mutex_);
        stopped_ = true;
        changed_.notify_all();
    }
    const MutexLock lock(joining_);
    if (thread_.joinable()) thread_.join();
}

}  // namespace tierfs::nfs
