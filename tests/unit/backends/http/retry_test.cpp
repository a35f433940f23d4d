#include "backends/http/retry.hpp"

#include <gtest/gtest.h>

#include "backends/http/admission.hpp"

namespace tierfs::http {
namespace retry_test {

using namespace std::chrono_literals;

Response status(int code) {
    Response response;
    response.status = code;
    return response;
}

Response failure(Failure kind) {
    Response response;
    response.failure = kind;
    return response;
}

TEST(HttpRetry, RepeatsWhatMayBeBetterNextTime) {
    for (const int code : {429, 500, 502, 503, 504}) EXPECT_TRUE(worth_repeating(status(code))) << code;
    for (const int code : {200, 206, 301, 400, 401, 403, 404, 409, 412, 416, 501})
        EXPECT_FALSE(worth_repeating(status(code))) << code;
    for (const auto kind : {Failure::connect, Failure::reset, Failure::truncated, Failure::stalled})
        EXPECT_TRUE(worth_repeating(failure(kind)));
    for (const auto kind :
         {Failure::cancelled, Failure::deadline, Failure::too_large, Failure::tls, Failure::protocol})
        EXPECT_FALSE(worth_repeating(failure(kind)));
}

TEST(HttpRetry, BackoffGrowsToACap) {
    EXPECT_EQ(backoff(0, 0), 0ms);
    EXPECT_EQ(backoff(0, 0.5), 25ms);
    EXPECT_EQ(backoff(3, 0.5), 200ms);
    EXPECT_EQ(backoff(30, 0.5), 2500ms);
    EXPECT_EQ(backoff(4000000000U, 0.5), 2500ms);
}

TEST(HttpRetry, ReadsRetryAfter) {
    EXPECT_EQ(retry_after("2", 0), 2000ms);
    EXPECT_EQ(retry_after("0", 0), 0ms);
    EXPECT_EQ(retry_after("-5", 0), 0ms);
    EXPECT_EQ(retry_after("99999999", 0), 3600s);
    EXPECT_EQ(retry_after("Fri, 24 May 2013 00:00:10 GMT", 1369353600), 10000ms);
    EXPECT_EQ(retry_after("", 0), std::nullopt);
    EXPECT_EQ(retry_after("soon", 0), std::nullopt);
    EXPECT_EQ(retry_after("1e9", 0), std::nullopt);
}

TEST(HttpRetry, ReadsDatesInThreeForms) {
    EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
    EXPECT_EQ(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), 784111777);
    EXPECT_EQ(parse_http_date("Sun Nov  6 08:49:37 1994"), 784111777);
    EXPECT_EQ(parse_http_date(""), std::nullopt);
    EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT and more"), std::nullopt);
}

TEST(HttpRetry, AnEmptyBudgetMakesRepeatsWait) {
    RetryBudget budget;
    const auto start = Clock::now();
    for (int i = 0; i < static_cast<int>(RetryBudget::kBurst); ++i) EXPECT_EQ(budget.take(start), 0ms);
    EXPECT_EQ(budget.take(start), 200ms);
    EXPECT_EQ(budget.take(start), 400ms);
    budget.refund();
    EXPECT_EQ(budget.take(start), 400ms);
    EXPECT_EQ(budget.take(start + 10s), 0ms);
}

TEST(HttpRetry, TenRequestsEarnARepeat) {
    RetryBudget budget;
    const auto start = Clock::now();
    for (int i = 0; i < static_cast<int>(RetryBudget::kBurst); ++i) EXPECT_EQ(budget.take(start), 0ms);
    for (int i = 0; i < 11; ++i) budget.earned();
    EXPECT_EQ(budget.take(start), 0ms);
    EXPECT_GT(budget.take(start), 0ms);
}

TEST(HttpWindow, HalvesOnceABurstAndCreepsUp) {
    Window window(64);
    const auto start = Clock::now();
    EXPECT_EQ(window.size(), 64U);
    window.throttled(start);
    window.throttled(start + 1ms);
    EXPECT_EQ(window.size(), 32U);
    window.throttled(start + Window::kCutInterval);
    EXPECT_EQ(window.size(), 16U);
    for (int i = 0; i < 17; ++i) window.succeeded();
    EXPECT_EQ(window.size(), 17U);
    for (int i = 0; i < 100000; ++i) window.succeeded();
    EXPECT_EQ(window.size(), 64U);
}

TEST(HttpWindow, NeverClosesAltogether) {
    Window window(4);
    auto now = Clock::now();
    for (int i = 0; i < 20; ++i) window.throttled(now += Window::kCutInterval);
    EXPECT_EQ(window.size(), 1U);
}

TEST(HttpAdmission, DemandComesFirst) {
    AdmissionQueue<int> queue(1);
    queue.push(Lane::fill, 1);
    queue.push(Lane::prefetch, 2);
    queue.push(Lane::demand, 3);
    queue.push(Lane::demand, 4);
    std::vector<int> order;
    while (queue.waiting() > 0) {
        const auto item = queue.pop();
        ASSERT_TRUE(item);
        EXPECT_FALSE(queue.pop());
        order.push_back(*item);
        queue.finished();
    }
    EXPECT_EQ(order, (std::vector<int>{3, 4, 2, 1}));
}

TEST(HttpAdmission, BulkLeavesRoomForDemand) {
    AdmissionQueue<int> queue(8);
    for (int i = 0; i < 20; ++i) queue.push(Lane::fill, i);
    int started = 0;
    while (queue.pop()) ++started;
    EXPECT_EQ(started, 7);
    queue.push(Lane::prefetch, 100);
    queue.push(Lane::prefetch, 101);
    EXPECT_FALSE(queue.pop());
    queue.finished();
    EXPECT_EQ(queue.pop(), 100) << "before the fill";
    EXPECT_FALSE(queue.pop());
    queue.push(Lane::demand, 200);
    EXPECT_EQ(queue.pop(), 200);
    EXPECT_EQ(queue.running(), 8U);
}

TEST(HttpAdmission, ReadsAndUploadsLeaveRoomForNames) {
    AdmissionQueue<int> queue(64);
    for (int i = 0; i < 400; ++i) queue.push(Lane::demand, i);
    int started = 0;
    while (queue.pop()) ++started;
    EXPECT_EQ(started, 60);
    for (int i = 0; i < 8; ++i) queue.push(Lane::names, 1000 + i);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.pop(), 1000 + i);
    EXPECT_FALSE(queue.pop());
    queue.finished();
    EXPECT_EQ(queue.pop(), 1004) << "before all reads";
}

TEST(HttpAdmission, NamesDoNotKeepReadsFromTheirTurn) {
    AdmissionQueue<int> queue(4);
    for (int i = 0; i < 3; ++i) queue.push(Lane::names, 1000 + i);
    for (int i = 0; i < 3; ++i) queue.push(Lane::demand, i);
    std::vector<int> order;
    while (const auto item = queue.pop()) {
        order.push_back(*item);
        queue.finished();
    }
    EXPECT_EQ(order, (std::vector<int>{1000, 0, 1001, 1, 1002, 2}));
}

TEST(HttpAdmission, TakesOutWhatIsUnwanted) {
    AdmissionQueue<int> queue(1);
    for (int i = 0; i < 6; ++i) queue.push(Lane::demand, i);
    EXPECT_EQ(queue.take_if([](int i) { return i % 2 == 0; }), (std::vector<int>{0, 2, 4}));
    EXPECT_EQ(queue.waiting(), 3U);
    EXPECT_EQ(queue.pop(), 1);
}

}  // namespace retry_test
}  // namespace tierfs::http
