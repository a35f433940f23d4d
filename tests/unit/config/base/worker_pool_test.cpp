#include "config/base/worker_pool.hpp"

#include <gtest/gtest.h>

#include <future>

namespace tierfs {
namespace worker_pool_test {

using namespace std::chrono_literals;

TEST(WorkerPool, JobsThatWaitHoldUpNobody) {
    std::promise<void> answer;
    const std::shared_future<void> answered(answer.get_future());
    std::atomic<unsigned> canceled{0}, begun{0};
    WorkerPool pool(2, 50);
    for (int i = 0; i < 40; ++i)
        pool.post([&, answered](bool is_canceled) {
            canceled += is_canceled ? 1 : 0;
            ++begun;
            answered.wait();
        });
    std::promise<void> quick;
    pool.post([&](bool) { quick.set_value(); });
    EXPECT_EQ(quick.get_future().wait_for(30s), std::future_status::ready);
    while (begun != 40) std::this_thread::sleep_for(1ms);
    EXPECT_GE(pool.threads(), 41U);
    EXPECT_LE(pool.threads(), 43U) << "the first two may have been on their way";
    answer.set_value();
    pool.stop();
    EXPECT_EQ(canceled, 0U);
}

TEST(WorkerPool, ThereAreNoMoreThanItMayHave) {
    std::promise<void> answer;
    const std::shared_future<void> answered(answer.get_future());
    std::atomic<unsigned> done{0};
    WorkerPool pool(1, 4);
    for (int i = 0; i < 20; ++i)
        pool.post([&, answered](bool) {
            answered.wait();
            ++done;
        });
    EXPECT_EQ(pool.threads(), 4U);
    answer.set_value();
    while (done != 20) std::this_thread::sleep_for(1ms);
    pool.stop();
}

TEST(WorkerPool, ThreadsWithoutWorkGo) {
    WorkerPool pool(1, 8, 20ms);
    for (int round = 0; round < 3; ++round) {
        std::promise<void> answer;
        const std::shared_future<void> answered(answer.get_future());
        for (int i = 0; i < 8; ++i) pool.post([answered](bool) { answered.wait(); });
        EXPECT_EQ(pool.threads(), 8U);
        answer.set_value();
        while (pool.threads() != 1) std::this_thread::sleep_for(1ms);
    }
}

TEST(WorkerPool, WhatWaitsIsCanceledByStop) {
    std::promise<void> answer, begun;
    const std::shared_future<void> answered(answer.get_future());
    std::atomic<unsigned> canceled{0};
    WorkerPool pool(1);
    pool.post([&](bool) {
        begun.set_value();
        answered.wait();
    });
    begun.get_future().wait();
    for (int i = 0; i < 3; ++i) pool.post([&](bool is_canceled) { canceled += is_canceled ? 1 : 0; });
    std::thread stops([&] { pool.stop(); });
    while (canceled != 3) std::this_thread::sleep_for(1ms);
    answer.set_value();
    stops.join();
    pool.post([&](bool is_canceled) { canceled += is_canceled ? 1 : 0; });
    EXPECT_EQ(canceled, 4U);
}

}  // namespace worker_pool_test
}  // namespace tierfs
