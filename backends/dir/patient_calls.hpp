// Calls that may hang in the kernel for good, waited for until a deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/origin/reachability.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// A dead NFS server holds a thread that asks it inside the kernel, for as long as it pleases. So the asking
/// is done by threads of this pool, at most `threads` of them, started as they are needed; who calls run()
/// waits `patience` at most and gets ETIMEDOUT, while the pool's thread stays behind and comes back when the
/// kernel lets it go. While all threads are held like that, run() fails at once instead of waiting too.
///
/// What a call uses must be owned by it: it may go on after this object has gone. Thread-safe. Errors:
/// ETIMEDOUT, ECANCELED after stop(), else what the call returns.
class PatientCalls {
  public:
    /// `reachability`: hears of calls that are not answered for Reachability::kSilence, and of all that are. May be null.
    PatientCalls(unsigned threads, std::chrono::milliseconds patience,
                 std::shared_ptr<Reachability> reachability = nullptr);
    ~PatientCalls() { stop(); }
    PatientCalls(const PatientCalls&) = delete;
    PatientCalls& operator=(const PatientCalls&) = delete;

    /// By which a call that is made of many says that it gets on. Thread-safe.
    class Progress {
      public:
        void made() { last_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed); }

      private:
        friend class PatientCalls;
        using Clock = std::chrono::steady_clock;
        [[nodiscard]] Clock::time_point last() const {
            return Clock::time_point(Clock::duration(last_.load(std::memory_order_relaxed)));
        }
        std::atomic<std::chrono::steady_clock::rep> last_{Clock::now().time_since_epoch().count()};
    };

    template <typename T>
    Result<T> run(std::function<Result<T>()> call) {
        return run_long<T>([call = std::move(call)](Progress&) { return call(); });
    }

    /// The patience counts from the last progress.
    template <typename T>
    Result<T> run_long(std::function<Result<T>(Progress&)> call) {
        const auto answer = std::make_shared<std::optional<Result<T>>>();
        const auto progress = std::make_shared<Progress>();
        auto work = [answer, progress, call = std::move(call)] { *answer = call(*progress); };
        if (auto ended = run_until_done(std::move(work), *progress); !ended)
            return fail(std::move(ended.error()));
        return std::move(**answer);
    }

    /// Calls that wait fail with ECANCELED; threads get a moment to come back, and are left behind else.
    void stop();

    /// After stop(): threads were left behind and have not come back.
    [[nodiscard]] bool is_held() const;

    static constexpr std::chrono::milliseconds kStopPatience{2000};

  private:
    struct Job {
        std::function<void()> work;
        enum class State : std::uint8_t { waiting, running, done } state = State::waiting;
        bool given_up = false;
    };
    /// Outlives the object while a thread is held.
    struct Shared {
        Mutex mutex;
        std::condition_variable work, changed;
        std::deque<std::shared_ptr<Job>> jobs TIERFS_GUARDED_BY(mutex);
        unsigned idle TIERFS_GUARDED_BY(mutex) = 0;
        unsigned alive TIERFS_GUARDED_BY(mutex) = 0;
        unsigned held TIERFS_GUARDED_BY(mutex) = 0;  ///< with a call that was given up
        bool stopped TIERFS_GUARDED_BY(mutex) = false;
        std::shared_ptr<Reachability> reachability;  ///< may be null
    };

    Result<void> run_until_done(std::function<void()> work, const Progress& progress);
    /// Until it is done or its patience is over; tells `reachability`.
    void wait_for(Job& job, const Progress& progress, MutexLock& lock) TIERFS_REQUIRES(shared_->mutex);
    bool start_thread() TIERFS_REQUIRES(shared_->mutex);
    static void serve(const std::shared_ptr<Shared>& shared);

    const unsigned most_;
    const std::chrono::milliseconds patience_;
    const std::shared_ptr<Shared> shared_;
    std::vector<std::thread> threads_ TIERFS_GUARDED_BY(shared_->mutex);
};

}  // namespace tierfs
