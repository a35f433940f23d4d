// Pages of listings that are made ahead: who gets which, and when one is no good any more.
#include "fs/metadata/pages_ahead.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace tierfs {
namespace pages_ahead_test {

using Items = PagesAhead::Items;
using Key = PagesAhead::Key;
using Moment = PagesAhead::Moment;
constexpr std::int64_t kStart = 1'700'000'000'000'000'000;
constexpr std::int64_t kMs = 1'000'000;

Moment at(std::int64_t ms, std::uint64_t changes = 1) {
    return {changes, kStart + ms * kMs};
}

class PagesAheadTest : public testing::Test {
  protected:
    /// Whether it was made at all.
    bool make(const Key& key, const Moment& now) {
        bool made = false;
        pages_.make(key, now, [&]() -> Result<Items> {
            made = true;
            return Items{{"name", key.after + 1, NodeView{1, 1, {}, std::chrono::milliseconds(5000)}}};
        });
        return made;
    }
    bool take(const Key& key, const Moment& now) { return pages_.take(key, now).has_value(); }
    PagesAhead pages_;
};

TEST_F(PagesAheadTest, IsForJustOneQuestion) {
    ASSERT_TRUE(make({100, 20, 195}, at(0)));
    EXPECT_FALSE(make({100, 20, 195}, at(0))) << "it is there";
    EXPECT_FALSE(take({101, 20, 195}, at(0)));
    EXPECT_FALSE(take({100, 21, 195}, at(0)));
    EXPECT_FALSE(take({100, 20, 194}, at(0)));
    const auto page = pages_.take({100, 20, 195}, at(1));
    ASSERT_TRUE(page);
    EXPECT_EQ(page->front().cookie, 21U);
    EXPECT_EQ(page->front().view.valid_for, std::chrono::milliseconds(4999));
    EXPECT_FALSE(take({100, 20, 195}, at(1)));
}

TEST_F(PagesAheadTest, EndsWithTheNextChangeAndBecomesOld) {
    ASSERT_TRUE(make({100, 20, 195}, at(0)));
    EXPECT_FALSE(take({100, 20, 195}, at(0, 2)));
    EXPECT_FALSE(make({100, 20, 195}, at(50, 2))) << "it would hardly live longer";
    ASSERT_TRUE(make({100, 20, 195}, at(150, 2)));
    EXPECT_FALSE(take({100, 20, 195}, at(1151, 2))) << "a second old";
    ASSERT_TRUE(make({100, 20, 195}, at(1200, 2)));
    EXPECT_FALSE(take({100, 20, 195}, at(1199, 2))) << "the clock went back";
}

TEST_F(PagesAheadTest, WhatIsForEverStaysSoAndNothingIsNegative) {
    pages_.make({100, 20, 195}, at(0), [&]() -> Result<Items> {
        return Items{{"a", 21, NodeView{1, 1, {}, kForever}},
                     {"b", 22, NodeView{2, 2, {}, std::chrono::milliseconds(100)}}};
    });
    const auto page = pages_.take({100, 20, 195}, at(900));
    ASSERT_TRUE(page);
    EXPECT_EQ(page->at(0).view.valid_for, kForever);
    EXPECT_EQ(page->at(1).view.valid_for, std::chrono::milliseconds(0));
}

TEST_F(PagesAheadTest, TheOldestMakesRoomAndLargeOnesAreNotMade) {
    EXPECT_FALSE(make({100, 20, PagesAhead::kLargest + 1}, at(0)));
    for (std::uint64_t i = 0; i <= PagesAhead::kMost; ++i)
        ASSERT_TRUE(make({100 + i, 20, 195}, at(static_cast<std::int64_t>(i))));
    EXPECT_FALSE(take({100, 20, 195}, at(10)));
    for (std::uint64_t i = 1; i <= PagesAhead::kMost; ++i) EXPECT_TRUE(take({100 + i, 20, 195}, at(10)));
}

TEST_F(PagesAheadTest, AFailureIsNoPage) {
    pages_.make({100, 20, 195}, at(0), []() -> Result<Items> { return fail(EIO, "damaged"); });
    EXPECT_FALSE(take({100, 20, 195}, at(0)));
    EXPECT_TRUE(make({100, 20, 195}, at(0)));
}

TEST_F(PagesAheadTest, WhoComesEarlyWaitsAndASecondOneDoesNot) {
    std::promise<void> begun, go;
    std::thread maker([&] {
        pages_.make({100, 20, 195}, at(0), [&]() -> Result<Items> {
            begun.set_value();
            go.get_future().wait();
            return Items{{"name", 21, {}}};
        });
    });
    begun.get_future().wait();
    EXPECT_FALSE(make({100, 20, 195}, at(0))) << "another makes it";
    auto first = std::async(std::launch::async, [&] { return pages_.take({100, 20, 195}, at(1)); });
    auto second = std::async(std::launch::async, [&] { return pages_.take({100, 20, 195}, at(1)); });
    // One of the two is back at once; which one is chance.
    while (first.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready &&
           second.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    }
    for (std::uint64_t i = 1; i <= 2 * PagesAhead::kMost; ++i) make({100 + i, 20, 195}, at(2));
    go.set_value();
    EXPECT_NE(first.get().has_value(), second.get().has_value());
    maker.join();
    EXPECT_TRUE(make({100, 20, 195}, at(3))) << "its place is free again";
}

}  // namespace pages_ahead_test
}  // namespace tierfs
