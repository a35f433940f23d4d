// Threads that the kernel does not let go: whoever asks is answered all the same.
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "backends/dir/patient_calls.hpp"
#include "backends/origin/read_pool.hpp"

namespace tierfs {
namespace held_test {

using namespace std::chrono_literals;

/// A dead server: calls that go in stay until it is let go. Owned by the calls too.
class Dead {
  public:
    void hold() {
        MutexLock lock(mutex_);
        ++held_;
        changed_.notify_all();
        while (!alive_) lock.wait(changed_);
        --held_;
        changed_.notify_all();
    }
    void wait_for_held(unsigned count) {
        MutexLock lock(mutex_);
        while (held_ != count) lock.wait(changed_);
    }
    void come_back() {
        const MutexLock lock(mutex_);
        alive_ = true;
        changed_.notify_all();
    }

  private:
    Mutex mutex_;
    std::condition_variable changed_;
    unsigned held_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool alive_ TIERFS_GUARDED_BY(mutex_) = false;
};

Result<int> answer_of(PatientCalls& calls, int value) {
    return calls.run<int>([value]() -> Result<int> { return value; });
}

TEST(PatientCalls, ReturnWhatTheCallReturns) {
    PatientCalls calls(2, 30s);
    EXPECT_EQ(answer_of(calls, 5).value_or(0), 5);
    const auto failed = calls.run<int>([]() -> Result<int> { return fail(EACCES, "no"); });
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, EACCES);
}

TEST(PatientCalls, ManyAtOnceShareFewThreads) {
    PatientCalls calls(3, 30s);
    std::vector<std::future<int>> answers;
    for (int i = 0; i < 50; ++i)
        answers.push_back(
            std::async(std::launch::async, [&calls, i] { return answer_of(calls, i).value_or(-1); }));
    for (int i = 0; i < 50; ++i) EXPECT_EQ(answers[i].get(), i);
}

TEST(PatientCalls, LetGoOfWhatIsHeldAndRefuseAtOnceWhenAllAre) {
    const auto dead = std::make_shared<Dead>();
    const auto ask = [dead](PatientCalls& calls) {
        return calls.run<int>([dead]() -> Result<int> {
            dead->hold();
            return 1;
        });
    };
    PatientCalls calls(2, 200ms);
    EXPECT_EQ(ask(calls).error().code, ETIMEDOUT);
    EXPECT_EQ(answer_of(calls, 7).value_or(0), 7) << "the other thread serves on";
    EXPECT_EQ(ask(calls).error().code, ETIMEDOUT);
    std::atomic<bool> ran{false};
    const auto refused = calls.run<int>([&ran]() -> Result<int> {
        ran = true;
        return 1;
    });
    EXPECT_EQ(refused.error().code, ETIMEDOUT);
    EXPECT_FALSE(ran);
    dead->come_back();
    dead->wait_for_held(0);
    Result<int> later = fail(EIO, "not asked");
    for (int i = 0; i < 1000 && !later; ++i) {  // the threads are on their way back
        later = answer_of(calls, 9);
        std::this_thread::sleep_for(5ms);
    }
    EXPECT_EQ(later.value_or(0), 9);
}

TEST(PatientCalls, AreWaitedForWhileTheyGetOn) {
    PatientCalls calls(1, 3s);
    const auto answer = calls.run_long<int>([](PatientCalls::Progress& progress) -> Result<int> {
        for (int i = 0; i < 70; ++i) {
            std::this_thread::sleep_for(50ms);
            progress.made();
        }
        return 3;
    });
    EXPECT_EQ(answer.value_or(0), 3) << "longer than the patience, but never silent for so long";
}

TEST(PatientCalls, StopEndsWaitsAndLeavesHeldThreadsBehind) {
    const auto dead = std::make_shared<Dead>();
    auto calls = std::make_unique<PatientCalls>(1, 24h);
    auto held = std::async(std::launch::async, [&] {
        return calls->run<int>([dead]() -> Result<int> {
            dead->hold();
            return 1;
        });
    });
    dead->wait_for_held(1);
    auto queued = std::async(std::launch::async, [&] { return answer_of(*calls, 1); });
    calls->stop();
    EXPECT_EQ(held.get().error().code, ECANCELED);
    const auto second = queued.get();
    EXPECT_EQ(second ? 0 : second.error().code, ECANCELED);
    EXPECT_EQ(answer_of(*calls, 1).error().code, ECANCELED);
    calls.reset();
    dead->come_back();
    dead->wait_for_held(0);
}

class HeldReads : public testing::Test {
  protected:
    std::future<int> read(ReadPool& pool, const std::string& path, Priority priority = Priority::demand) {
        auto promise = std::make_shared<std::promise<int>>();
        auto answer = promise->get_future();
        OriginRead request;
        request.path = path;
        request.priority = priority;
        request.done = [promise](Result<void> result) {
            promise->set_value(result ? 0 : result.error().code);
        };
        pool.submit(std::move(request));
        return answer;
    }
    std::function<void(OriginRead&)> serve() {
        return [dead = dead_](OriginRead& request) {
            if (request.path == "dead") dead->hold();
            request.done({});
        };
    }
    static bool ready(const std::future<int>& answer) {
        return answer.wait_for(0s) == std::future_status::ready;
    }

    std::shared_ptr<Dead> dead_ = std::make_shared<Dead>();
};

TEST_F(HeldReads, WhatWaitsBehindThemTimesOut) {
    ReadPool pool(1, 1, 300ms, serve());
    auto held = read(pool, "dead");
    dead_->wait_for_held(1);
    auto first = read(pool, "a");
    auto second = read(pool, "b", Priority::prefetch);
    EXPECT_EQ(first.get(), ETIMEDOUT);
    EXPECT_EQ(second.get(), ETIMEDOUT);
    EXPECT_EQ(read(pool, "c").get(), ETIMEDOUT) << "at once: all threads are held";
    EXPECT_FALSE(ready(held)) << "its destination is still being written";
    dead_->come_back();
    EXPECT_EQ(held.get(), 0);
    int code = ETIMEDOUT;
    for (int i = 0; i < 1000 && code != 0; ++i) {  // the thread is on its way back
        code = read(pool, "d").get();
        std::this_thread::sleep_for(5ms);
    }
    EXPECT_EQ(code, 0);
}

TEST_F(HeldReads, HoldUpNobodyWhileThereMayBeMoreThreads) {
    ReadPool pool(2, 64, 30s, serve());
    std::vector<std::future<int>> held;
    for (int i = 0; i < 40; ++i) held.push_back(read(pool, "dead"));
    dead_->wait_for_held(40);
    EXPECT_EQ(read(pool, "a").get(), 0);
    EXPECT_EQ(read(pool, "b", Priority::fill).get(), 0);
    dead_->come_back();
    for (auto& one : held) EXPECT_EQ(one.get(), 0);
}

TEST_F(HeldReads, StopDoesNotWaitForThem) {
    auto pool = std::make_unique<ReadPool>(1, 1, 24h, serve());
    auto held = read(*pool, "dead");
    dead_->wait_for_held(1);
    auto queued = read(*pool, "a");
    pool->stop();
    EXPECT_EQ(queued.get(), ECANCELED);
    EXPECT_EQ(read(*pool, "b").get(), ECANCELED);
    pool.reset();
    EXPECT_FALSE(ready(held));
    dead_->come_back();
    EXPECT_EQ(held.get(), 0);
    dead_->wait_for_held(0);
}

}  // namespace held_test
}  // namespace tierfs
