// A mutex that clang's thread-safety analysis understands.
//
// libstdc++'s std::mutex carries no annotations, so guarded_by(std::mutex) cannot be checked with it. The
// names of the attributes are those of https://clang.llvm.org/docs/ThreadSafetyAnalysis.html; g++ sees empty
// macros.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TIERFS_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TIERFS_THREAD_ATTRIBUTE(x)
#endif

#define TIERFS_CAPABILITY(x) TIERFS_THREAD_ATTRIBUTE(capability(x))
#define TIERFS_SCOPED_CAPABILITY TIERFS_THREAD_ATTRIBUTE(scoped_lockable)
#define TIERFS_GUARDED_BY(x) TIERFS_THREAD_ATTRIBUTE(guarded_by(x))
#define TIERFS_PT_GUARDED_BY(x) TIERFS_THREAD_ATTRIBUTE(pt_guarded_by(x))
#define TIERFS_REQUIRES(...) TIERFS_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TIERFS_EXCLUDES(...) TIERFS_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define TIERFS_ACQUIRE(...) TIERFS_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TIERFS_RELEASE(...) TIERFS_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TIERFS_TRY_ACQUIRE(...) TIERFS_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define TIERFS_NO_THREAD_SAFETY_ANALYSIS TIERFS_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace tierfs {

/// std::mutex with annotations.
class TIERFS_CAPABILITY("mutex") Mutex {
  public:
    Mutex() = default;
    Mutex(const Mutex&) = delete;
    Mutex& operator=(const Mutex&) = delete;

    void lock() TIERFS_ACQUIRE() { mutex_.lock(); }
    void unlock() TIERFS_RELEASE() { mutex_.unlock(); }
    bool try_lock() TIERFS_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

  private:
    friend class MutexLock;
    std::mutex mutex_;
};

/// Holds a Mutex for a scope; `unlock` and `lock` let go of it in between; `wait` sleeps on a condition
/// variable.
class TIERFS_SCOPED_CAPABILITY MutexLock {
  public:
    explicit MutexLock(Mutex& mutex) TIERFS_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
    ~MutexLock() TIERFS_RELEASE() = default;
    MutexLock(const MutexLock&) = delete;
    MutexLock& operator=(const MutexLock&) = delete;

    void unlock() TIERFS_RELEASE() { lock_.unlock(); }
    void lock() TIERFS_ACQUIRE() { lock_.lock(); }

    /// May wake without reason: call it in a loop that tests the condition (written out, since the analysis
    /// does not see into a lambda).
    void wait(std::condition_variable& condition) { condition.wait(lock_); }

    template <typename Clock, typename Duration>
    std::cv_status wait_until(std::condition_variable& condition,
                              const std::chrono::time_point<Clock, Duration>& deadline) {
        return condition.wait_until(lock_, deadline);
    }

    template <typename Rep, typename Period>
    std::cv_status wait_for(std::condition_variable& condition, std::chrono::duration<Rep, Period> duration) {
        return condition.wait_for(lock_, duration);
    }

  private:
    std::unique_lock<std::mutex> lock_;
};

}  // namespace tierfs
