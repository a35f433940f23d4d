#include "backends/http/hedge.hpp"

#include <gtest/gtest.h>

#include "tests/unit/backends/http/scripted_server.hpp"

namespace tierfs::http {
namespace hedge_test {

using namespace std::chrono_literals;
using test::Gate;
using test::How;
using test::ReceivedRequest;
using test::Reply;
using test::ScriptedServer;

TEST(RecentLatencies, KnowNothingAtFirst) {
    RecentLatencies latencies;
    for (unsigned i = 0; i < RecentLatencies::kWindow / 4 - 1; ++i) latencies.add(1ms);
    EXPECT_FALSE(latencies.high_quantile());
    latencies.add(1ms);
    ASSERT_TRUE(latencies.high_quantile());
    EXPECT_GE(*latencies.high_quantile(), 1ms);
    EXPECT_LE(*latencies.high_quantile(), 1200us);
}

TEST(RecentLatencies, LeaveRareSlowOnesOutAndFollowChanges) {
    RecentLatencies latencies;
    for (int i = 0; i < 2000; ++i) latencies.add(i % 50 == 0 ? 2s : 20ms);
    EXPECT_LE(*latencies.high_quantile(), 25ms);
    for (int i = 0; i < 2000; ++i) latencies.add(200ms);
    EXPECT_GE(*latencies.high_quantile(), 200ms);
    EXPECT_LE(*latencies.high_quantile(), 250ms);
    for (int i = 0; i < 2000; ++i) latencies.add(i % 10 == 0 ? 24h : 0s);
    EXPECT_GE(*latencies.high_quantile(), 60s) << "what is out of range is kept at its end";
}

TEST(HedgeBudget, IsAShareOfTheRequestsWithASmallBurst) {
    HedgeBudget budget(5);
    EXPECT_FALSE(budget.take(0));
    for (int i = 0; i < 21; ++i) budget.earned();
    EXPECT_FALSE(budget.take(1)) << "the rest is for others";
    EXPECT_TRUE(budget.take(0));
    EXPECT_FALSE(budget.take(0));
    for (int i = 0; i < 100000; ++i) budget.earned();
    int taken = 0;
    while (budget.take(0)) ++taken;
    EXPECT_EQ(taken, static_cast<int>(HedgeBudget::kBurst));
}

TEST(HedgeBudget, ShrinksWhileHedgesLoseAndGrowsWhenTheyWin) {
    const auto taken_of = [](HedgeBudget& budget, int requests, bool won) {
        int taken = 0;
        for (int i = 0; i < requests; ++i) {
            budget.earned();
            if (!budget.take(0)) continue;
            ++taken;
            budget.ended(won);
        }
        return taken;
    };
    HedgeBudget budget(5);
    EXPECT_NEAR(taken_of(budget, 10'000, true), 500, 1);
    EXPECT_LT(taken_of(budget, 10'000, false), 100);
    const int least = taken_of(budget, 10'000, false);
    EXPECT_GE(least, 9);
    EXPECT_LE(least, 11);
    EXPECT_GT(taken_of(budget, 10'000, true), 350);
    EXPECT_NEAR(taken_of(budget, 10'000, true), 500, 1);
}

/// A server whose answers to "/slow" are scripted by their order, and quick ones to everything else.
class HedgeTest : public testing::Test {
  protected:
    static constexpr unsigned kUsual = 100;  ///< requests that tell what is usual: five hedges

    void start(std::vector<Reply> slow, std::chrono::milliseconds usual = 0ms, unsigned percent = 5,
               std::chrono::milliseconds stall = 10s) {
        server_ = std::make_unique<ScriptedServer>([this, slow, usual](const ReceivedRequest& request) {
            if (request.target != "/slow") {
                std::this_thread::sleep_for(usual);
                return Reply{206, {}, std::string(10, 'u')};
            }
            const unsigned number = slow_++;
            if (number == 1) hedged_at_ = Clock::now();
            return slow.at(std::min<std::size_t>(number, slow.size() - 1));
        });
        EngineOptions options;
        options.connections = 300;
        options.wire.stall = stall;
        engine_ = std::make_unique<Engine>(options);
        hedger_ = std::make_unique<Hedger>(*engine_, percent);
    }

    void learn(unsigned count = kUsual) {
        for (unsigned i = 0; i < count; ++i) {
            send("/usual");
            ASSERT_EQ(wait().status, 206);
        }
    }

    void send(const std::string& path, std::chrono::milliseconds deadline = 60s,
              Priority priority = Priority::demand) {
        Request request;
        request.url = server_->url() + path;
        request.deadline = Clock::now() + deadline;
        request.priority = priority;
        request.destination = bytes_;
        hedger_->send(std::move(request), [this](Response response) {
            const MutexLock lock(mutex_);
            responses_.push_back(std::move(response));
            arrived_.notify_all();
        });
    }

    Response wait() {
        MutexLock lock(mutex_);
        while (responses_.empty()) lock.wait(arrived_);
        Response response = std::move(responses_.back());
        responses_.pop_back();
        return response;
    }
    std::size_t more_responses() {
        const MutexLock lock(mutex_);
        return responses_.size();
    }
    [[nodiscard]] std::string text() const {
        std::string result;
        for (const auto byte : bytes_) result += static_cast<char>(byte);
        return result;
    }

    std::vector<std::byte> bytes_ = std::vector<std::byte>(10, std::byte{'-'});
    std::atomic<unsigned> slow_{0};
    std::atomic<Clock::time_point> hedged_at_{};
    Mutex mutex_;
    std::condition_variable arrived_;
    std::vector<Response> responses_ TIERFS_GUARDED_BY(mutex_);
    std::unique_ptr<ScriptedServer> server_;
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Hedger> hedger_;
};

const Reply kNever{206, {}, "", How::stall};
const Reply kGood{206, {}, "0123456789"};

TEST_F(HedgeTest, ASlowRequestIsSentAgainAndTheFirstAnswerWins) {
    start({kNever, kGood});
    learn();
    send("/slow");
    const auto response = wait();
    EXPECT_EQ(response.failure, Failure::none) << response.detail;
    EXPECT_EQ(response.received, 10U);
    EXPECT_EQ(text(), "0123456789");
    EXPECT_EQ(slow_, 2U);
    EXPECT_EQ(hedger_->stats().sent, 1U);
    EXPECT_EQ(hedger_->stats().won, 1U);
    EXPECT_TRUE(server_->wait_until_open(1)) << "the loser's connection is closed";
    EXPECT_EQ(more_responses(), 0U);
}

TEST_F(HedgeTest, NotBeforeTheUsualTimeHasPassed) {
    start({kNever, kGood}, 30ms);
    learn(70);
    const auto begun = Clock::now();
    send("/slow");
    EXPECT_EQ(wait().status, 206);
    EXPECT_GE(hedged_at_.load() - begun, 45ms) << "half as long again as nearly all took";
}

TEST_F(HedgeTest, NotBeforeTheUsualTimeIsKnown) {
    start({kNever});
    learn(30);
    send("/slow", 300ms);
    EXPECT_EQ(wait().failure, Failure::deadline);
    EXPECT_EQ(slow_, 1U);
}

TEST_F(HedgeTest, ZeroSwitchesItOff) {
    start({kNever}, 0ms, 0);
    learn();
    send("/slow", 300ms);
    EXPECT_EQ(wait().failure, Failure::deadline);
    EXPECT_EQ(slow_, 1U);
}

TEST_F(HedgeTest, BulkAndPrefetchDoNotTakeWhatDemandMayNeed) {
    start({kNever});
    learn();
    send("/slow", 300ms, Priority::fill);
    EXPECT_EQ(wait().failure, Failure::deadline);
    send("/slow", 300ms, Priority::prefetch);
    EXPECT_EQ(wait().failure, Failure::deadline);
    EXPECT_EQ(slow_, 2U);
    learn(200);
    send("/slow", 2s, Priority::prefetch);
    EXPECT_EQ(wait().failure, Failure::deadline);
    EXPECT_EQ(slow_, 4U);
}

TEST_F(HedgeTest, AServerThatIsSlowAsAWholeGetsNoMoreThanTheBudget) {
    start({kNever});
    learn();
    for (int i = 0; i < 100; ++i) send("/slow", 1500ms);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(wait().failure, Failure::deadline);
    const auto sent = hedger_->stats().sent;
    EXPECT_GE(sent, 1U);
    EXPECT_LE(sent, 10U) << "5 % of 200";
    EXPECT_LE(slow_, 110U);
    EXPECT_EQ(hedger_->stats().won, 0U);
}

TEST_F(HedgeTest, NoneWhileTheServerThrottles) {
    start({Reply{503, {}, "slow down"}, kNever});
    learn();
    send("/slow");
    EXPECT_EQ(wait().status, 503);
    send("/slow", 500ms);
    EXPECT_EQ(wait().failure, Failure::deadline);
    EXPECT_EQ(slow_, 2U);
    EXPECT_EQ(hedger_->stats().sent, 0U);
}

TEST_F(HedgeTest, ThePrimaryGoesOnWhenTheHedgeFails) {
    start({Reply{206, {}, "0123456789", How::after_next}, Reply{500, {}, "no"}});
    learn();
    send("/slow");
    const auto response = wait();
    EXPECT_EQ(response.status, 206);
    EXPECT_EQ(text(), "0123456789");
    EXPECT_EQ(slow_, 2U);
    EXPECT_EQ(hedger_->stats().won, 0U);
}

TEST_F(HedgeTest, WhenBothFailThereIsOneError) {
    start({Reply{500, {}, "no", How::after_next}, Reply{500, {}, "no"}});
    learn();
    send("/slow");
    EXPECT_EQ(wait().status, 500);
    EXPECT_EQ(slow_, 2U);
    engine_->stop();
    EXPECT_EQ(more_responses(), 0U);
    EXPECT_EQ(text(), "uuuuuuuuuu");
}

TEST_F(HedgeTest, AnAnswerAboutTheObjectEndsBoth) {
    start({kNever, Reply{404, {}, "no such key"}});
    learn();
    send("/slow");
    EXPECT_EQ(wait().status, 404);
    EXPECT_TRUE(server_->wait_until_open(1));
    EXPECT_EQ(more_responses(), 0U);
}

TEST_F(HedgeTest, OneAloneWritesIntoTheDestination) {
    // The hedge's answer begins and stalls; right behind it comes the whole of the primary's.
    start({Reply{206, {}, "PPPPPPPPPP", How::after_next}, Reply{206, {}, "HHHHHHHHHH", How::stall_in_body}},
          0ms, 5, 500ms);
    learn();
    send("/slow");
    const auto response = wait();
    if (response.failure == Failure::none) {
        EXPECT_EQ(text(), "PPPPPPPPPP");
    } else {
        EXPECT_EQ(response.failure, Failure::stalled) << response.detail;
        EXPECT_EQ(text(), "HHHHHuuuuu") << "what has won goes on alone";
    }
    engine_->stop();
    EXPECT_EQ(more_responses(), 0U);
}

TEST_F(HedgeTest, TheDeadlineHoldsForBoth) {
    start({kNever});
    learn();
    send("/slow", 2s);
    EXPECT_EQ(wait().failure, Failure::deadline);
    EXPECT_EQ(slow_, 2U);
    engine_->stop();
    EXPECT_EQ(more_responses(), 0U);
}

TEST_F(HedgeTest, StopsWhileBothAreUnderWay) {
    start({kNever});
    learn();
    send("/slow");
    ASSERT_TRUE(server_->wait_for_requests(kUsual + 2));
    engine_->stop();
    EXPECT_EQ(wait().failure, Failure::cancelled);
    EXPECT_EQ(more_responses(), 0U);
    send("/slow");
    EXPECT_EQ(wait().failure, Failure::cancelled);
}

TEST_F(HedgeTest, MayGoBeforeWhatItSent) {
    start({kNever, kGood});
    learn();
    send("/slow");
    hedger_.reset();
    EXPECT_EQ(wait().status, 206);
}

}  // namespace hedge_test
}  // namespace tierfs::http
