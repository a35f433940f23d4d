// Requests that nobody answers, on a real mount. Needs to be allowed to mount.
#include "fs/session/watchdog.hpp"

#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>

#include "fs/daemon/unmount.hpp"
#include "fs/session/request.hpp"
#include "fs/session/thread_stacks.hpp"

namespace tierfs {
namespace watchdog_test {

using namespace std::chrono_literals;

__attribute__((noinline)) void stay_here_for_the_stack(std::atomic<bool>& end) {
    while (!end) std::this_thread::sleep_for(1ms);
}

/// ThreadSanitizer has a thread of its own, which takes no signals.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TIERFS_TEST_TSAN 1
#endif
#endif
#if defined(TIERFS_TEST_TSAN) || defined(__SANITIZE_THREAD__)
constexpr bool kOthersThreads = true;
#else
constexpr bool kOthersThreads = false;
#endif

TEST(ThreadStacks, ShowWhatThreadsDo) {
    ThreadStacks::prepare();
    std::atomic<bool> end{false};
    std::thread one([&] { stay_here_for_the_stack(end); });
    std::thread two([&] { stay_here_for_the_stack(end); });
    // A thread that gets no processor for a moment does not answer in time: asked again.
    std::string all;
    for (int tries = 0; tries < 100; ++tries) {
        all.clear();
        for (const auto& line : ThreadStacks::describe({})) all += line + "\n";
        if (all.find("does not answer") == std::string::npos) break;
        if (kOthersThreads && all.find(" < ") != std::string::npos) break;
    }
    end = true;
    one.join();
    two.join();
    EXPECT_NE(all.find("system call"), std::string::npos) << all;
    EXPECT_NE(all.find(" < "), std::string::npos) << "no frames:\n" << all;
    if (!kOthersThreads) {
        EXPECT_EQ(all.find("does not answer"), std::string::npos) << all;
    }
}

TEST(ThreadStacks, LeaveOutWhoShallNotBeDisturbed) {
    ThreadStacks::prepare();
    for (const auto& line : ThreadStacks::describe({::getpid()}))
        EXPECT_EQ(line.find("thread " + std::to_string(::getpid()) + ":"), std::string::npos) << line;
}

/// A file system that answers questions about its root, and keeps each lookup until it is told.
class WatchdogTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = "/tmp/tierfs-watchdog-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        settings_.mountpoint = pattern;
        settings_.source = "/nowhere";
        if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0)
            GTEST_SKIP() << "needs root and FUSE";
        auto mounted = mount_fuse(settings_);
        ASSERT_TRUE(mounted) << mounted.error().message;
        mount_ = std::move(*mounted);
        operations_.lookup = [](fuse_req_t raw, fuse_ino_t, const char* name) {
            auto& self = Session::user_of<WatchdogTest>(raw);
            const MutexLock lock(self.mutex_);
            self.kept_.push_back(std::make_shared<Request>(raw, Subject{name, nullptr}));
            self.changed_.notify_all();
        };
        operations_.getattr = [](fuse_req_t raw, fuse_ino_t, fuse_file_info*) {
            struct stat root {};
            root.st_mode = S_IFDIR | 0755;
            root.st_nlink = 1;
            Request(raw).attributes(root, 60);
        };
        operations_.statfs = [](fuse_req_t raw, fuse_ino_t) {
            auto& self = Session::user_of<WatchdogTest>(raw);
            MutexLock lock(self.mutex_);
            while (self.busy_) lock.wait(self.changed_);
            Request(raw).statfs({});
        };
        SessionHandlers handlers{&operations_, this};
        adapt(handlers);
        auto session = Session::open(std::move(mount_.device), handlers);
        ASSERT_TRUE(session) << session.error().message;
        session_ = std::move(*session);
        ASSERT_TRUE(session_->start({threads(), threads()}));
        ASSERT_TRUE(session_->wait_until_initialised(30s));
    }
    void TearDown() override {
        if (session_) {
            {
                const MutexLock lock(mutex_);
                kept_.clear();
                busy_ = false;
                changed_.notify_all();
            }
            if (watchdog_) watchdog_->answer_all(ENOTCONN);
            EXPECT_TRUE(unmount_fuse(settings_.mountpoint, mount_.number, true));
            watchdog_.reset();
            session_->stop();
        }
        std::filesystem::remove(settings_.mountpoint);
    }

    virtual void adapt(SessionHandlers&) {}
    virtual unsigned threads() { return 2; }

    void watch(std::chrono::milliseconds limit) {
        WatchdogOptions options;
        options.limit = limit;
        options.tick = 20ms;
        options.say = [this](const std::string& text) {
            const MutexLock lock(mutex_);
            said_ += text + "\n";
            changed_.notify_all();
        };
        watchdog_ = std::make_unique<Watchdog>(*session_, options);
    }
    std::future<int> start_stat(const std::string& name) {
        return std::async(std::launch::async, [path = settings_.mountpoint + "/" + name] {
            struct stat seen {};
            return ::stat(path.c_str(), &seen) == 0 ? 0 : errno;
        });
    }
    void wait_for_kept(std::size_t count) {
        MutexLock lock(mutex_);
        while (kept_.size() < count) lock.wait(changed_);
    }
    void wait_for_words(const std::string& words) {
        MutexLock lock(mutex_);
        while (said_.find(words) == std::string::npos) lock.wait(changed_);
    }
    std::string said() {
        const MutexLock lock(mutex_);
        return said_;
    }

    Settings settings_;
    FuseMount mount_;
    fuse_lowlevel_ops operations_{};
    Mutex mutex_;
    std::condition_variable changed_;
    std::vector<RequestPtr> kept_ TIERFS_GUARDED_BY(mutex_);
    std::string said_ TIERFS_GUARDED_BY(mutex_);
    bool busy_ TIERFS_GUARDED_BY(mutex_) = false;
    std::unique_ptr<Session> session_;
    std::unique_ptr<Watchdog> watchdog_;
};

TEST_F(WatchdogTest, AnswersWhatIsOverItsDeadlineAndSaysSo) {
    std::atomic<bool> end{false};
    std::thread held([&] { stay_here_for_the_stack(end); });  // who asked may have gone when stacks are taken
    watch(200ms);
    auto asked = start_stat("lost");
    EXPECT_EQ(asked.get(), ETIMEDOUT);
    wait_for_words(" < ");
    end = true;
    held.join();
    const auto words = said();
    EXPECT_NE(words.find("LOOKUP of node 1 (lost)"), std::string::npos) << words;
    EXPECT_NE(words.find("stack of "), std::string::npos) << words;
    const auto stats = watchdog_->stats();
    EXPECT_EQ(stats.over_deadline, 1U);
    EXPECT_EQ(stats.timed_out, 1U);
    EXPECT_EQ(stats.under_way, 0U);
    {
        const MutexLock lock(mutex_);
        ASSERT_EQ(kept_.size(), 1U);
        kept_[0]->error(EIO);  // too late: dropped
        kept_.clear();
    }
    EXPECT_EQ(session_->in_flight().count(), 0U);
    EXPECT_EQ(start_stat("next").get(), ETIMEDOUT) << "the session goes on";
}

TEST_F(WatchdogTest, LeavesTheOthersAlone) {
    watch(1h);
    auto asked = start_stat("kept");
    wait_for_kept(1);
    EXPECT_EQ(watchdog_->stats().under_way, 1U);
    EXPECT_GE(watchdog_->stats().oldest_s, 0.0);
    {
        const MutexLock lock(mutex_);
        kept_[0]->error(EACCES);
    }
    EXPECT_EQ(asked.get(), EACCES);
    EXPECT_EQ(watchdog_->stats().over_deadline, 0U);
    EXPECT_EQ(said(), "");
}

TEST_F(WatchdogTest, AThreadThatIsHeldIsReported) {
    watch(200ms);
    {
        const MutexLock lock(mutex_);
        busy_ = true;
    }
    auto asked = std::async(std::launch::async, [path = settings_.mountpoint] {
        struct statvfs values {};
        return ::statvfs(path.c_str(), &values) == 0 ? 0 : errno;
    });
    wait_for_words("STATFS");
    EXPECT_NE(said().find("has been busy for"), std::string::npos);
    {
        const MutexLock lock(mutex_);
        busy_ = false;
        changed_.notify_all();
    }
    EXPECT_EQ(asked.get(), 0);
}

class PatientWatchdogTest : public WatchdogTest {
  protected:
    void adapt(SessionHandlers& handlers) override { handlers.waits_for_ever = true; }
};

TEST_F(PatientWatchdogTest, WhatWaitsForEverIsToldOfAndLeftAlone) {
    watch(100ms);
    auto asked = start_stat("kept");
    wait_for_words("LOOKUP of node 1 (kept)");
    EXPECT_NE(said().find("it goes on"), std::string::npos) << said();
    for (int i = 0; i < 10; ++i) std::this_thread::sleep_for(20ms);  // looked at some times
    EXPECT_EQ(watchdog_->stats().timed_out, 0U);
    {
        const MutexLock lock(mutex_);
        kept_[0]->error(EACCES);
    }
    EXPECT_EQ(asked.get(), EACCES);
}

/// A daemon whose handlers block, all of them: the thread that is kept from them looks after who waits for
/// it.
class BlockingWatchdogTest : public PatientWatchdogTest {
  protected:
    void adapt(SessionHandlers& handlers) override {
        PatientWatchdogTest::adapt(handlers);
        handlers.patience = 1h;
    }
};

TEST_F(BlockingWatchdogTest, WhoFindsAllThreadsHeldCanBeKilled) {
    watch(1h);
    {
        const MutexLock lock(mutex_);
        busy_ = true;
    }
    const auto ask = [path = settings_.mountpoint] {
        struct statvfs values {};
        return ::statvfs(path.c_str(), &values) == 0 ? 0 : errno;
    };
    auto holds = std::async(std::launch::async, ask);  // one of two threads
    // Not something else that the kernel asks first: the child's request would be the one that is handled.
    const auto is_held = [&] {
        const auto busy = session_->busy_threads();
        return std::any_of(busy.begin(), busy.end(),
                           [](const RequestInfo& info) { return info.opcode == FUSE_STATFS; });
    };
    while (!is_held()) std::this_thread::sleep_for(1ms);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(ask());
    ASSERT_GT(child, 0);
    while (session_->messages()["STATFS"] < 2) std::this_thread::sleep_for(1ms);
    ::kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    {
        const MutexLock lock(mutex_);
        busy_ = false;
        changed_.notify_all();
    }
    EXPECT_EQ(holds.get(), 0);
}

/// As any session is before its second thread runs.
class LonelyWatchdogTest : public BlockingWatchdogTest {
  protected:
    void adapt(SessionHandlers& handlers) override { handlers.patience = 1h; }
    unsigned threads() override { return 1; }
};

TEST_F(LonelyWatchdogTest, TheFirstThreadNeedNotWaitForTheSecond) {
    struct statvfs values {};
    EXPECT_EQ(::statvfs(settings_.mountpoint.c_str(), &values) == 0 ? 0 : errno, 0);
}

TEST_F(WatchdogTest, AReaderThatIsKilledEnds) {
    watch(1h);
    const pid_t child = ::fork();
    if (child == 0) {
        struct stat seen {};
        ::stat((settings_.mountpoint + "/child").c_str(), &seen);
        ::_exit(0);
    }
    ASSERT_GT(child, 0);
    wait_for_kept(1);
    ::kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    while (watchdog_->stats().interrupted == 0) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(watchdog_->stats().timed_out, 0U);
}

TEST_F(WatchdogTest, ASignalWithAHandlerInterruptsNothing) {
    watch(1h);
    const pid_t child = ::fork();
    if (child == 0) {
        struct sigaction action {};
        action.sa_handler = [](int) {};
        ::sigaction(SIGUSR2, &action, nullptr);
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        struct stat seen {};
        const int code = ::stat((settings_.mountpoint + "/child").c_str(), &seen) == 0 ? 0 : errno;
        ::_exit(code);
    }
    ASSERT_GT(child, 0);
    wait_for_kept(1);
    ::kill(child, SIGUSR2);
    while (session_->requests().interrupted_or_before(RequestInfo::Clock::time_point::min()).empty())
        std::this_thread::sleep_for(1ms);
    for (int i = 0; i < 10; ++i) std::this_thread::sleep_for(20ms);  // looked at some times
    EXPECT_EQ(watchdog_->stats().interrupted, 0U);
    {
        const MutexLock lock(mutex_);
        kept_[0]->error(EACCES);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), EACCES);
}

}  // namespace watchdog_test
}  // namespace tierfs
