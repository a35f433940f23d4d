#include "tiering/tree_job.hpp"

#include <cerrno>
#include <utility>

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

TreeJob::TreeJob(Origin& origin, Action action, std::chrono::milliseconds patience)
    : origin_(origin),
      action_(std::move(action)),
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
    std::string path;
    while (next(path)) walk(path);
    bool abandoned = false;
    {
        MutexLock lock(mutex_);
        abandoned = abandoned_;
    }
    MutexLock lock(state_->mutex);
    if (abandoned) state_->fail("", Error{ETIMEDOUT, "who named the paths has gone"});
    state_->progress.walking = false;
    if (stopping()) state_->fail("", Error{ECANCELED, "stopped before the end"});
}

void TreeJob::walk(const std::string& path) {
    if (!path.empty()) {
        const auto found = origin_.stat(path);
        if (!found || (found->kind != ObjectKind::file && found->kind != ObjectKind::directory)) {
            MutexLock lock(state_->mutex);
            return state_->fail(path, found ? Error{EINVAL, "is no file and no directory"} : found.error());
        }
        if (found->kind == ObjectKind::file)
            return hand_out(
                {path, found->version, found->size, found->size > 0 && !found->archived, found->mtime_ns});
    }
    FileWalk walk(origin_, path, FileWalk::Below::with);
    std::vector<ListedFile> files;
    while (!walk.over() && !stopping()) {
        files.clear();
        if (const auto listed = walk.next(files); !listed) {
            MutexLock lock(state_->mutex);
            return state_->fail(path, listed.error());
        }
        for (const ListedFile& file : files) {
            if (stopping()) return;
            hand_out(file);
        }
    }
}

void TreeJob::hand_out(const ListedFile& file) {
    const auto object = object_of(identity_, file);
    {
        MutexLock lock(state_->mutex);
        ++state_->progress.found_files;
        state_->progress.found_bytes += file.size;
        ++state_->under_way;
    }
    action_(object, [state = state_, path = file.path, size = file.size](const Result<Done>& result) {
        state->answered(path, size, result);
    });
}

}  // namespace tierfs
