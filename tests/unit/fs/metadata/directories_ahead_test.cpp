#include "fs/metadata/directories_ahead.hpp"

#include "tests/unit/fs/metadata/names_fixture.hpp"

namespace tierfs {
namespace directories_ahead_test {

/// A tree of 60 directories with a file in each, and files beside them.
class DirectoriesAheadTest : public NamesFixture {
  protected:
    void make(milliseconds takes, milliseconds ttl = milliseconds(60000)) {
        for (int i = 0; i < 60; ++i) {
            origin_->put(name(i) + "/file", "v");
            origin_->put(name(i) + ".txt", "v");
        }
        origin_->take(takes);
        open(ttl);
        names_of(kRootNode);
    }
    static std::string name(int number) { return "d" + std::to_string(100 + number); }
    void read(int number) {
        EXPECT_EQ(names_of(find(kRootNode, name(number)).node), std::vector<std::string>{"file"});
    }
    [[nodiscard]] std::size_t listed() {
        std::size_t count = 0;
        for (int i = 0; i < 60; ++i) count += origin_->lists_of(name(i));
        return count;
    }
    /// Waits until nothing more is listed.
    std::size_t listed_at_last() {
        for (;;) {
            const auto before = listed();
            std::this_thread::sleep_for(milliseconds(60));
            if (listed() == before) return before;
        }
    }
};

TEST_F(DirectoriesAheadTest, AWalkInOrderFindsThemListed) {
    make(milliseconds(5));
    for (int i = 0; i < 3; ++i) read(i);
    EXPECT_EQ(listed_at_last(), 5U) << "two ahead";
    read(3);
    read(4);
    EXPECT_GE(listed_at_last(), 4U + DirectoriesAhead::kMost / 4);
    for (int i = 5; i < 60; ++i) read(i);
    EXPECT_EQ(listed_at_last(), 60U) << "each once";
}

TEST_F(DirectoriesAheadTest, AFewMayBeLeftOut) {
    make(milliseconds(5));
    for (int i = 0; i < 6; i += 2) read(i);
    EXPECT_GT(listed_at_last(), 3U);
}

TEST_F(DirectoriesAheadTest, WhoJumpsIsNotGuessedAt) {
    make(milliseconds(5));
    for (const int i : {50, 10, 30, 11, 55, 12, 2, 40, 13, 25}) read(i);
    EXPECT_EQ(listed_at_last(), 10U);
    for (const int i : {14, 15}) read(i);
    EXPECT_EQ(listed_at_last(), 12U) << "it begins anew";
}

TEST_F(DirectoriesAheadTest, WhatIsNotBelievedIsNotListedAhead) {
    make(milliseconds(5), milliseconds(0));
    for (int i = 0; i < 10; ++i) read(i);
    EXPECT_EQ(listed_at_last(), 10U);
}

TEST_F(DirectoriesAheadTest, WhereListingCostsNothingNothingIsListedAhead) {
    make(milliseconds(0));
    for (int i = 0; i < 20; ++i) read(i);
    EXPECT_EQ(listed_at_last(), 20U);
}

}  // namespace directories_ahead_test
}  // namespace tierfs
