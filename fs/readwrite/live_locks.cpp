#include "fs/readwrite/live_locks.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>
#include <vector>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"

namespace tierfs {

namespace {

constexpr std::chrono::milliseconds kShortest{1}, kLongest{500};
constexpr unsigned kForgetters = 2;

/// The pages that the kernel has of a file, and what it knows of its size and times.
bool forgets(fuse_session* session, NodeId node) {
    const int fault = TIERFS_FAULT("live.forget");
    const int code = fault != 0 ? -fault : ::fuse_lowlevel_notify_inval_inode(session, node, 0, 0);
    if (code == 0 || code == -ENOENT) return true;  // ENOENT: it has nothing
    log::error(system_error(-code, "telling the kernel that a file has changed").message);
    return false;
}

}  // namespace

LiveLocks::LiveLocks(LiveFiles& files, bool serves, LiveRecord* record)
    : files_(files), serves_(serves), record_(record) {
    if (!serves_) return;
    forgetters_ = std::make_unique<WorkerPool>(kForgetters);
    thread_ = std::thread([this] { run(); });
}

bool LiveLocks::stop(std::chrono::milliseconds patience) {
    if (!serves_) return true;
    const auto end = Clock::now() + patience;
    std::vector<LiveNodePtr> rows;
    {
        MutexLock lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
        while (!has_ended_) {
            if (lock.wait_until(ended_, end) == std::cv_status::timeout && !has_ended_) return false;
        }
        for (const auto& [node, turns] : turns_) rows.push_back(turns.row->node);
    }
    if (thread_.joinable()) thread_.join();
    for (const auto& node : rows) {
        post(node, [](Row& row) {
            for (auto& waiter : row.waiters) waiter.request->error(ECANCELED);
            row.waiters.clear();
        });
    }
    if (is_forgetting(end)) return false;
    forgetters_->stop();
    return true;
}

bool LiveLocks::is_forgetting(Clock::time_point end) {
    MutexLock lock(mutex_);
    while (forgetting_ != 0) {
        if (lock.wait_until(ended_, end) == std::cv_status::timeout) return forgetting_ != 0;
    }
    return false;
}

bool LiveLocks::is_stopping() {
    const MutexLock lock(mutex_);
    return stopping_;
}

bool LiveLocks::is_known(const LiveNodePtr& node) {
    const MutexLock lock(mutex_);
    return turns_.contains(node.get());
}

void LiveLocks::post(const LiveNodePtr& node, Job job) {
    std::unique_ptr<Row> idle;  // goes after the lock
    MutexLock lock(mutex_);
    auto& turns = turns_[node.get()];  // stays where it is until it is erased below
    if (!turns.row) turns.row = std::make_unique<Row>(node);
    count(turns, true);
    turns.jobs.push_back(std::move(job));
    if (turns.is_taken) return;
    turns.is_taken = true;
    Row& row = *turns.row;
    while (!turns.jobs.empty()) {
        Job next = std::move(turns.jobs.front());
        turns.jobs.pop_front();
        lock.unlock();
        next(row);
        next = nullptr;  // with the requests it holds
        lock.lock();
    }
    turns.is_taken = false;
    count(turns, row.locks.are_held() || !row.waiters.empty());
    if (row.locks.empty() && row.waiters.empty()) {
        set_due(turns, std::nullopt);
        idle = std::move(turns.row);
        turns_.erase(node.get());
    } else if (row.waiters.empty()) {
        set_due(turns, std::nullopt);
    } else if (const auto next = next_try(row); !turns.due || *turns.due > next) {
        set_due(turns, next);
    }
}

// Before anything is done with its locks, so that no daemon takes over from one that dies meanwhile.
void LiveLocks::count(Turns& turns, bool is_locked) {
    if (turns.is_locked == is_locked) return;
    turns.is_locked = is_locked;
    if (is_locked) {
        ++locked_;
    } else {
        --locked_;
    }
    if (record_ != nullptr) record_->set_locked(locked_);
}

LiveLocks::Clock::time_point LiveLocks::next_try(const Row& row) {
    auto next = Clock::now() + row.pause;
    for (const auto& waiter : row.waiters) next = std::min(next, waiter.until);
    return next;
}

void LiveLocks::set_due(Turns& turns, std::optional<Clock::time_point> due) {
    if (turns.due) due_.erase({*turns.due, turns.row->node});
    turns.due = due;
    if (!due) return;
    const auto place = due_.emplace(*due, turns.row->node).first;
    if (place == due_.begin()) wake_.notify_all();
}

void LiveLocks::run() {
    MutexLock lock(mutex_);
    while (!stopping_) {
        if (due_.empty()) {
            lock.wait(wake_);
            continue;
        }
        const auto [due, node] = *due_.begin();
        if (due > Clock::now()) {
            (void)lock.wait_until(wake_, due);
            continue;
        }
        set_due(turns_.at(node.get()), std::nullopt);
        lock.unlock();
        post(node, [this](Row& row) {
            row.pause = std::min<Clock::duration>(2 * row.pause, kLongest);
            look(row);
        });
        lock.lock();
    }
    has_ended_ = true;
    ended_.notify_all();
}

void LiveLocks::set(RequestPtr request, fuse_session* session, const LiveNodePtr& node, LockAsker asker,
                    const LockWish& wish, bool waits) {
    post(node, [=, this, asks = Waiter{std::move(request), session, std::move(asker), wish}](Row& row) {
        try_first(row, asks, waits);
    });
}

void LiveLocks::try_first(Row& row, Waiter asks, bool waits) {
    // Nobody waits any more for what stood behind others for too long; to let go is right all the same.
    if (asks.wish.lock.kind != FileLock::Kind::none && !asks.request->is_wanted()) return;
    const auto change = row.locks.set(asks.asker, asks.wish);
    if (change) {
        grant(row, asks, *change);
        if (change->gave_way()) look(row);
        return;
    }
    const int code = change.error().code;
    const auto now = Clock::now();
    const bool may_have_lost = asks.wish.whole;  // what it had before
    if (code != EAGAIN) {
        asks.request->error(code);
    } else if (waits) {
        wait(row, std::move(asks));
    } else if (row.locks.is_leaving(asks.asker, asks.wish, now)) {
        // Whoever closed the file before may rightly expect that its lock has gone.
        asks.until = now + FileLocks::kClosing;
        wait(row, std::move(asks));
    } else {
        asks.request->error(EAGAIN);
    }
    if (may_have_lost) look(row);
}

void LiveLocks::wait(Row& row, Waiter asks) {
    if (is_stopping()) return asks.request->error(ECANCELED);
    // Who does not want to wait hears of no signal while he does so for a moment.
    if (asks.until == Clock::time_point::max() && !asks.request->waits()) return;
    row.pause = kShortest;
    row.waiters.push_back(std::move(asks));
}

void LiveLocks::look(Row& row) {
    for (bool again = true; again;) {
        again = false;
        for (auto waiter = row.waiters.begin(); waiter != row.waiters.end();) {
            bool gave_way = false;
            waiter = try_again(row, *waiter, gave_way) ? row.waiters.erase(waiter) : std::next(waiter);
            again = again || gave_way;
        }
    }
}

bool LiveLocks::try_again(Row& row, Waiter& waiter, bool& gave_way) {
    if (!waiter.request->is_wanted()) return true;
    const bool is_over = Clock::now() >= waiter.until;
    if (row.locks.is_ours_in_the_way(waiter.asker, waiter.wish)) {
        if (is_over) waiter.request->error(EAGAIN);
        return is_over;
    }
    const auto change = row.locks.set(waiter.asker, waiter.wish);
    if (!change) {
        const int code = change.error().code;
        if (code == EAGAIN && !is_over) return false;
        waiter.request->error(code);
        return true;
    }
    row.pause = kShortest;
    gave_way = change->gave_way();
    grant(row, waiter, *change);
    return true;
}

void LiveLocks::grant(Row& row, const Waiter& asks, const LockChange& change) {
    // Kept without the description, which must not live longer than its owner.
    const LockChange undoing{change.before, nullptr, change.left};
    if (asks.wish.lock.kind == FileLock::Kind::none) {
        asks.request->ok();
        return;
    }
    // Before anybody else has his turn: whoever was told that a signal came may ask again at once, would be
    // given what he has already, and must not lose that when the first answer turns out to be for nobody.
    if (!asks.request->granted()) return take_back(row, asks, undoing);
    const auto now = change.on->attributes();
    const auto version = now ? files_.locked(*row.node, *now) : std::optional<std::string>(std::in_place);
    if (version) {
        forget_first(row, asks, undoing, *version);
    } else if (!asks.request->ok()) {
        take_back(row, asks, undoing);
    }
}

void LiveLocks::forget_first(Row& row, const Waiter& asks, const LockChange& undoing, std::string version) {
    {
        const MutexLock lock(mutex_);
        ++forgetting_;
    }
    forgetters_->post([this, node = row.node, asks, undoing, version = std::move(version)](bool is_canceled) {
        if (is_canceled || is_stopping()) {
            asks.request->error(ECANCELED);
        } else if (!forget_and_answer(node, asks, version)) {
            post(node, [this, asks, undoing](Row& now) { take_back(now, asks, undoing); });
        }
        const MutexLock lock(mutex_);
        --forgetting_;
        ended_.notify_all();
    });
}

bool LiveLocks::forget_and_answer(const LiveNodePtr& node, const Waiter& asks, const std::string& version) {
    if (forgets(asks.session, node->id)) {
        LiveFiles::forgotten(*node, version);
        return asks.request->ok();
    }
    asks.request->error(EIO);
    return false;
}

void LiveLocks::take_back(Row& row, const Waiter& asks, const LockChange& undoing) {
    row.locks.undo(asks.asker, asks.wish, undoing);
    look_later(row.node);
}

void LiveLocks::look_later(const LiveNodePtr& node) {
    post(node, [this](Row& row) { look(row); });
}

void LiveLocks::get(RequestPtr request, const LiveNodePtr& node, LockAsker asker, const FileLock& lock) {
    post(node, [request = std::move(request), asker = std::move(asker), lock](Row& row) {
        const auto found = row.locks.in_the_way(asker, lock);
        if (!found) return request->error(found.error().code);
        request->lock(flock_of(*found));
    });
}

void LiveLocks::flushed(const LiveNodePtr& node, std::uint64_t owner, std::uint64_t handle,
                        std::function<void()> done) {
    if (!is_known(node)) return done();
    post(node, [=, this, done = std::move(done)](Row& row) {
        row.locks.flushed(owner, handle, Clock::now());
        done();
        look(row);
    });
}

void LiveLocks::released(const LiveNodePtr& node, std::uint64_t handle) {
    if (!is_known(node)) return;
    post(node, [=, this](Row& row) {
        row.locks.released(handle);
        look(row);
    });
}

}  // namespace tierfs
