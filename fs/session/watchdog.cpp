#include "fs/session/watchdog.hpp"

#include <algorithm>
#include <cstdio>

#include "config/base/log.hpp"
#include "fs/session/dying_thread.hpp"
#include "fs/session/thread_stacks.hpp"

namespace tierfs {
namespace {

constexpr std::chrono::seconds kSlow{1};  // direct I/O is not interrupted: looked after from then on
constexpr std::size_t kMostLines = 20;    // for each look, about requests

std::string seconds_text(RequestInfo::Clock::duration age) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f s", std::chrono::duration<double>(age).count());
    return text;
}

std::string describe(const RequestInfo& info, const std::string& about) {
    std::string text = opcode_name(info.opcode) + " of node " + std::to_string(info.node);
    if (!about.empty()) text += " (" + about + ")";
    return text + " for thread " + std::to_string(info.asker);
}

}  // namespace

Watchdog::Watchdog(Session& session, WatchdogOptions options)
    : session_(session), options_(std::move(options)) {
    ThreadStacks::prepare();
    thread_ = std::thread([this] { run(); });
}

void Watchdog::stop() {
    {
        const MutexLock lock(mutex_);
        if (stopping_) return;
        stopping_ = true;
        wake_.notify_all();
    }
    thread_.join();
}

void Watchdog::run() {
    MutexLock lock(mutex_);
    while (!stopping_) {
        (void)lock.wait_for(wake_, options_.tick);
        if (stopping_) return;
        lock.unlock();
        look(Clock::now());
        lock.lock();
    }
}

void Watchdog::look(Clock::time_point now) {
    const auto limit = now - options_.limit;
    if (session_.in_flight().count() != 0) {
        end_the_killed(now);
        const auto late = session_.requests().unreported_before(limit, 4096);
        over_deadline_ += late.size();
        auto taken = session_.requests().take_if([&](const RequestInfo& info) {
            return info.since < limit && !session_.takes_its_time(info.opcode);
        });
        timed_out_ += taken.size();
        answer(taken, ETIMEDOUT);
        if (!late.empty()) report(late, now);  // after the answers: stacks of held threads take their time
    }
    report_busy_threads(now);
}

void Watchdog::report(const std::vector<RequestTable::Seen>& late, Clock::time_point now) {
    for (std::size_t i = 0; i < late.size() && i < kMostLines; ++i) {
        const auto& info = late[i].info;
        const bool busy = session_.is_busy_with(info.thread, info.unique);
        say("over the deadline after " + seconds_text(now - info.since) + ": " +
            describe(info, late[i].about) +
            (busy ? "; our thread " + std::to_string(info.thread) + " is in the middle of it"
                  : "; it waits for other threads") +
            (session_.takes_its_time(info.opcode) ? "; it goes on" : "; answered with ETIMEDOUT"));
    }
    if (late.size() > kMostLines)
        say("over the deadline: " + std::to_string(late.size() - kMostLines) + " more requests");
    say_stacks(now);
}

/// Of what makes no Request (a RELEASE, say) the thread alone shows that it is under way.
void Watchdog::report_busy_threads(Clock::time_point now) {
    std::vector<std::uint64_t> still;
    bool news = false;
    for (const auto& info : session_.busy_threads()) {
        if (now - info.since <= options_.limit) continue;
        still.push_back(info.unique);
        if (std::find(reported_busy_.begin(), reported_busy_.end(), info.unique) != reported_busy_.end())
            continue;
        news = true;
        say("a thread of the mount, " + std::to_string(info.thread) + ", has been busy for " +
            seconds_text(now - info.since) + " with " + describe(info, ""));
    }
    reported_busy_ = std::move(still);
    if (news) say_stacks(now);
}

void Watchdog::say_stacks(Clock::time_point now) {
    if (now < next_stacks_) return;
    next_stacks_ = now + options_.between_stacks;
    for (const auto& line : ThreadStacks::describe(session_.idle_threads())) say("stack of " + line);
}

void Watchdog::end_the_killed(Clock::time_point now) {
    std::vector<std::uint64_t> dying;
    for (const auto& [unique, asker] : session_.requests().interrupted_or_before(now - kSlow)) {
        if (is_about_to_die(asker) || (session_.waits_for_ever() && is_dying(asker))) dying.push_back(unique);
    }
    if (dying.empty()) return;
    auto taken = session_.requests().take_if([&](const RequestInfo& info) {
        return std::find(dying.begin(), dying.end(), info.unique) != dying.end();
    });
    interrupted_ += taken.size();
    answer(taken, EINTR);
}

void Watchdog::answer(const std::vector<RequestTable::Seen>& taken, int code) {
    for (const auto& one : taken) {
        ::fuse_reply_err(one.raw, code);
        session_.in_flight().leave();
    }
}

void Watchdog::answer_all(int code) {
    answer(session_.requests().take_if([](const RequestInfo&) { return true; }), code);
}

RequestStats Watchdog::stats() {
    RequestStats stats;
    const auto summary = session_.requests().summary();
    stats.under_way = summary.under_way;
    if (summary.under_way != 0)
        stats.oldest_s = std::chrono::duration<double>(Clock::now() - summary.oldest).count();
    stats.over_deadline = over_deadline_;
    stats.timed_out = timed_out_;
    stats.interrupted = interrupted_;
    return stats;
}

void Watchdog::say(const std::string& text) const {
    if (options_.say) {
        options_.say(text);
    } else {
        log::warning(text);
    }
}

}  // namespace tierfs
