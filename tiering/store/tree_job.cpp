#include "tiering/store/tree_job.hpp"

#include <cerrno>
#include <utility>

#include "config/base/units.hpp"

namespace tierfs {

void TreeJob::State::fail(const std::string& path, const Error& error) {
    ++progress.failed;
    if (progress.failures.size() < kMostFailures) progress.failures.push_back({path, error.message});
}

void TreeJob::State::answered(const std::string& path, std::uint64_t size, const Result<Done>& result) {
    MutexLock lock(mutex);
    --under_way;
    ++progress.files;
    progress.bytes += size;
    if (!result) return fail(path, result.error());
    progress.brought += result->brought;
    if (result->unchanged) ++progress.unchanged;
}

TreeJob::TreeJob(Origin& origin, Action action, Steps steps, std::chrono::milliseconds patience)
    : origin_(origin),
      action_(std::move(action)),
      steps_(std::move(steps)),
      identity_(origin.identity()),
      patience_(patience),
      state_(std::make_shared<State>()),
      thread_([this] { run(); }) {}

TreeJob::~TreeJob() {
    stop();
    thread_.join();
}

bool TreeJob::add(std::string path) {
    MutexLock lock(mutex_);
    if (waiting_bytes_ + path.size() > kMostWaiting) return false;
    waiting_bytes_ += path.size() + sizeof(std::string);
    waiting_.push_back(std::move(path));
    wake_.notify_all();
    return true;
}

void TreeJob::seal() {
    MutexLock lock(mutex_);
    sealed_ = true;
    wake_.notify_all();
}

void TreeJob::stop() {
    stopped_ = true;
    MutexLock lock(mutex_);
    wake_.notify_all();
}

TreeJob::Progress TreeJob::progress() const {
    MutexLock lock(state_->mutex);
    Progress now = state_->progress;
    now.running = now.walking || state_->under_way > 0;
    return now;
}

bool TreeJob::next(std::string& path) {
    MutexLock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + patience_;
    while (waiting_.empty() && !sealed_ && !stopping()) {
        if (lock.wait_until(wake_, deadline) == std::cv_status::timeout && waiting_.empty() && !sealed_)
            sealed_ = abandoned_ = true;
    }
    if (stopping() || waiting_.empty()) return false;
    path = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= path.size() + sizeof(std::string);
    return true;
}

void TreeJob::run() {
    std::vector<std::string> entered;
    std::string path;
    bool going = true;
    while (going && !is_full_ && next(path)) {
        if (!enter(path)) continue;
        if (steps_.settle) {
            entered.push_back(path);
            going = entered.size() % kUnsettled != 0 || settle();
        } else {
            walk(path);
        }
    }
    going = going && (!steps_.settle || settle());
    bool abandoned = false;
    {
        MutexLock lock(mutex_);
        abandoned = abandoned_;
    }
    {
        MutexLock lock(state_->mutex);
        state_->progress.settled = true;
        if (abandoned) state_->fail("", Error{ETIMEDOUT, "who named the paths has gone"});
    }
    for (const std::string& each : entered) {
        if (going && !over()) walk(each);
    }
    MutexLock lock(state_->mutex);
    state_->progress.walking = false;
    if (stopping()) state_->fail("", Error{ECANCELED, "stopped before the end"});
}

bool TreeJob::settle() {
    const auto settled = steps_.settle();
    if (!settled) failed("", settled.error());
    return settled.has_value();
}

bool TreeJob::enter(const std::string& path) {
    if (steps_.enter) {
        const auto done = steps_.enter(path);
        if (!done) {
            failed(path, done.error());
            return false;
        }
        if (*done) {
            MutexLock lock(state_->mutex);
            ++state_->progress.files;
            state_->progress.brought += (*done)->brought;
            if ((*done)->unchanged) ++state_->progress.unchanged;
            return false;
        }
    }
    if (!steps_.admit) return true;
    std::uint64_t files = 0, bytes = 0;
    const bool seen = for_each_file(path, [&](const ListedFile& file) {
        ++files;
        bytes += steps_.space ? steps_.space(file.size) : file.size;
    });
    if (!seen || stopping()) return false;
    const auto admitted = steps_.admit(path, files, bytes);
    if (!admitted) failed(path, admitted.error());
    return admitted.has_value();
}

void TreeJob::failed(const std::string& path, const Error& error) {
    MutexLock lock(state_->mutex);
    state_->fail(path, error);
}

void TreeJob::walk(const std::string& path) {
    (void)for_each_file(path, [this](const ListedFile& file) { hand_out(file); });
}

bool TreeJob::for_each_file(const std::string& path, const std::function<void(const ListedFile&)>& each) {
    const auto unlisted = [&](const Error& error) {
        MutexLock lock(state_->mutex);
        if (error.code != ENOENT && error.code != ENOTDIR) ++state_->progress.unlisted;
        state_->fail(path, error);
        return false;
    };
    if (!path.empty()) {
        const auto found = origin_.stat(path);
        if (!found) return unlisted(found.error());
        if (found->kind != ObjectKind::file && found->kind != ObjectKind::directory) {
            failed(path, Error{EINVAL, "is no file and no directory"});
            return false;
        }
        if (found->kind == ObjectKind::file) {
            each({path, found->version, found->size, found->size > 0 && !found->archived, found->mtime_ns});
            return true;
        }
    }
    FileWalk walk(origin_, path, FileWalk::Below::with);
    std::vector<ListedFile> files;
    while (!walk.over() && !over()) {
        files.clear();
        if (const auto listed = walk.next(files); !listed) return unlisted(listed.error());
        for (const ListedFile& file : files) {
            if (over()) return false;
            each(file);
        }
    }
    return true;
}

bool TreeJob::is_too_much(const ListedFile& file) {
    const std::uint64_t most = steps_.most_bytes;
    if (most == 0) return false;
    MutexLock lock(state_->mutex);
    auto& progress = state_->progress;
    if (file.size <= most && progress.found_bytes <= most - file.size) return false;
    is_full_ = file.size <= most;
    state_->fail(
        file.path,
        Error{ENOSPC, is_full_ ? "all that was named has more than " + format_size(most) +
                                     ", which is what the tiers hold: it and what follows are left out"
                               : "has " + format_size(file.size) + ", and the tiers hold " +
                                     format_size(most) + " in all: it is left out"});
    return true;
}

void TreeJob::hand_out(const ListedFile& file) {
    if (is_too_much(file)) return;
    const auto object = object_of(identity_, file);
    {
        MutexLock lock(state_->mutex);
        ++state_->progress.found_files;
        state_->progress.found_bytes += file.size;
        ++state_->under_way;
    }
    action_(
        object,
        [state = state_, path = file.path, size = file.size](const Result<Done>& result) {
            state->answered(path, size, result);
        },
        [this] { return stopping(); });
}

}  // namespace tierfs
