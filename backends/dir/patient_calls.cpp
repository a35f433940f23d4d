#include "backends/dir/patient_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace tierfs {
namespace {

Error no_answer() {
    return Error{ETIMEDOUT, "the source directory does not answer in time"};
}

}  // namespace

PatientCalls::PatientCalls(unsigned threads, std::chrono::milliseconds patience,
                           std::shared_ptr<Reachability> reachability)
    : most_(std::max(1U, threads)), patience_(patience), shared_(std::make_shared<Shared>()) {
    shared_->reachability = std::move(reachability);
}

bool PatientCalls::start_thread() {
    try {
        threads_.emplace_back([shared = shared_] { serve(shared); });
        ++shared_->alive;
    } catch (const std::system_error&) {
        return shared_->alive > 0;  // those there are will do it
    }
    return true;
}

void PatientCalls::wait_for(Job& job, const Progress& progress, MutexLock& lock) {
    using Clock = std::chrono::steady_clock;
    bool is_silent = false;
    while (job.state != Job::State::done && !shared_->stopped) {
        const auto last = progress.last();
        const auto silence = std::min<std::chrono::milliseconds>(Reachability::kSilence, patience_);
        (void)lock.wait_until(shared_->changed, last + (is_silent ? patience_ : silence));
        const auto quiet = Clock::now() - progress.last();
        if (job.state == Job::State::done || quiet < silence) continue;
        if (!is_silent && shared_->reachability)
            shared_->reachability->failed("the source directory does not answer",
                                          Reachability::Failure::certain);
        is_silent = true;
        if (quiet >= patience_) return;
    }
}

Result<void> PatientCalls::run_until_done(std::function<void()> work, const Progress& progress) {
    const auto job = std::make_shared<Job>();
    job->work = std::move(work);
    MutexLock lock(shared_->mutex);
    if (shared_->stopped) return fail(ECANCELED, "the source is being closed");
    if (shared_->held >= most_) return fail(no_answer());
    shared_->jobs.push_back(job);
    if (shared_->idle < shared_->jobs.size() && shared_->alive < most_ && !start_thread()) {
        shared_->jobs.pop_back();
        return fail(EAGAIN, "no thread could be started for the source directory");
    }
    shared_->work.notify_one();
    wait_for(*job, progress, lock);
    if (job->state == Job::State::done) return {};
    if (job->state == Job::State::waiting) std::erase(shared_->jobs, job);
    if (job->state == Job::State::running) {
        job->given_up = true;
        ++shared_->held;
    }
    if (shared_->stopped) return fail(ECANCELED, "the source is being closed");
    return fail(no_answer());
}

void PatientCalls::serve(const std::shared_ptr<Shared>& shared) {
    MutexLock lock(shared->mutex);
    while (true) {
        ++shared->idle;
        while (shared->jobs.empty() && !shared->stopped) lock.wait(shared->work);
        --shared->idle;
        if (shared->stopped) break;
        auto job = std::move(shared->jobs.front());
        shared->jobs.pop_front();
        job->state = Job::State::running;
        lock.unlock();
        job->work();
        if (shared->reachability) shared->reachability->answered();
        lock.lock();
        job->state = Job::State::done;
        if (job->given_up) --shared->held;
        shared->changed.notify_all();
        lock.unlock();
        job.reset();  // what the call holds is given back without the lock
        lock.lock();
    }
    --shared->alive;
    shared->changed.notify_all();
}

bool PatientCalls::is_held() const {
    const MutexLock lock(shared_->mutex);
    return shared_->stopped && shared_->alive > 0;
}

void PatientCalls::stop() {
    const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
    std::vector<std::thread> threads;
    bool held = false;
    {
        MutexLock lock(shared_->mutex);
        shared_->stopped = true;
        shared_->work.notify_all();
        shared_->changed.notify_all();
        while (shared_->alive > 0) {
            if (lock.wait_until(shared_->changed, deadline) == std::cv_status::timeout) break;
        }
        held = shared_->alive > 0;
        threads.swap(threads_);
    }
    for (auto& thread : threads) held ? thread.detach() : thread.join();
}

}  // namespace tierfs
