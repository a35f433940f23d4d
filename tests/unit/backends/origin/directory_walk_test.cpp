#include "backends/origin/directory_walk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "fs/pack/tree.hpp"
#include "fs/stage/copy/source_tree.hpp"
#include "tests/unit/fs/metadata/fake_origin.hpp"

namespace tierfs {
namespace directory_walk_test {

using testing::ElementsAre;
using testing::HasSubstr;

const auto kNever = [] { return false; };

std::vector<std::string> directories_in(Origin& origin, const std::string& directory) {
    std::vector<std::string> below;
    const auto listed = list_pages(origin, directory, kNever, [&](ListPage& page) -> Result<bool> {
        for (const auto& entry : page.entries)
            if (entry.attributes.kind == ObjectKind::directory)
                below.push_back(directory.empty() ? entry.name : directory + "/" + entry.name);
        return true;
    });
    EXPECT_TRUE(listed) << listed.error().message;
    return below;
}

TEST(DirectoryWalk, VisitsEachDirectoryOnce) {
    FakeOrigin origin;
    std::map<std::string, int> expected{{"", 1}};
    for (int i = 0; i < 40; ++i) {
        const auto first = "d" + std::to_string(i % 5);
        const auto second = first + "/e" + std::to_string(i % 8);
        origin.put(second + "/f" + std::to_string(i), "v");
        expected[first] = expected[second] = 1;
    }
    for (const unsigned threads : {1U, 8U}) {
        Mutex mutex;
        std::map<std::string, int> visited;
        walk_directories(threads, kNever, [&](const std::string& directory) {
            {
                const MutexLock lock(mutex);
                ++visited[directory];
            }
            return directories_in(origin, directory);
        });
        EXPECT_EQ(visited, expected) << threads << " threads";
    }
}

TEST(DirectoryWalk, EndsInAnEndlessTreeWhenAsked) {
    std::atomic<int> visits = 0;
    // Two below each: there is always more to do than has been done.
    walk_directories(
        4, [&] { return visits >= 100; },
        [&](const std::string& directory) {
            ++visits;
            return std::vector<std::string>{directory + "a/", directory + "b/"};
        });
    EXPECT_GE(visits, 100);
    EXPECT_LE(visits, 104) << "nobody begins another visit";
}

TEST(DirectoryWalk, WhoWaitsForWorkEndsToo) {
    // One visit goes on and finds more in the end, the other threads have nothing to do meanwhile.
    std::atomic<bool> ended = false;
    std::atomic<int> visits = 0;
    walk_directories(
        4, [&] { return ended.load(); },
        [&](const std::string& directory) {
            ++visits;
            if (!directory.empty()) ended = true;
            return std::vector<std::string>{directory + "x"};
        });
    EXPECT_EQ(visits, 2);
}

TEST(DirectoryWalk, EndedMayLockWhatAVisitLocks) {
    Mutex mutex;
    int left = 200;
    const auto is_over = [&] {
        const MutexLock lock(mutex);
        return left <= 0;
    };
    walk_directories(8, is_over, [&](const std::string& directory) {
        const MutexLock lock(mutex);
        --left;
        return std::vector<std::string>{directory + "a", directory + "b"};
    });
    EXPECT_LE(left, 0);
}

class ListPages : public testing::Test {
  protected:
    void SetUp() override {
        for (int i = 0; i < 10; ++i) origin_.put("d/f" + std::to_string(i), "v");
        origin_.set_page_size(3);
    }

    FakeOrigin origin_;
    std::vector<std::string> names_;
    const std::function<Result<bool>(ListPage&)> all_ = [this](ListPage& page) -> Result<bool> {
        for (const auto& entry : page.entries) names_.push_back(entry.name);
        return true;
    };
};

TEST_F(ListPages, GivesAllPages) {
    ASSERT_TRUE(list_pages(origin_, "d", kNever, all_));
    EXPECT_THAT(names_, ElementsAre("f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9"));
    EXPECT_EQ(origin_.lists_of("d"), 4U);
}

TEST_F(ListPages, EndsWhenThereIsEnough) {
    ASSERT_TRUE(list_pages(origin_, "d", kNever, [&](ListPage& page) -> Result<bool> {
        for (const auto& entry : page.entries) names_.push_back(entry.name);
        return names_.size() < 4;
    }));
    EXPECT_EQ(names_.size(), 6U);
    EXPECT_EQ(origin_.lists_of("d"), 2U);
}

TEST_F(ListPages, EndsWithTheErrorOfWhoTakesThem) {
    const auto listed =
        list_pages(origin_, "d", kNever, [](ListPage&) -> Result<bool> { return fail(ENOSPC, "no room"); });
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error().code, ENOSPC);
    EXPECT_EQ(origin_.lists_of("d"), 1U);
}

TEST_F(ListPages, StopsBetweenPages) {
    const auto listed = list_pages(
        origin_, "d", [this] { return names_.size() >= 3; }, all_);
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error().code, ECANCELED);
    EXPECT_EQ(origin_.lists_of("d"), 1U);
}

TEST_F(ListPages, OfTheOriginAnErrorStaysWhatItIs) {
    origin_.fail_second_pages(true);
    EXPECT_EQ(list_pages(origin_, "d", kNever, all_).error().code, EIO);
    EXPECT_EQ(list_pages(origin_, "none", kNever, all_).error().code, ENOENT);
}

TEST_F(ListPages, AServerThatGivesTheSamePageAgainIsAnError) {
    origin_.repeat_pages(true);
    const auto listed = list_pages(origin_, "d", kNever, all_);
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error().code, EIO);
    EXPECT_THAT(listed.error().message, HasSubstr("'d': the source gives the same page again"));
    EXPECT_EQ(origin_.lists_of("d"), 2U);
}

TEST_F(ListPages, AServerWhoseListingGoesRoundIsAnError) {
    origin_.go_round(true);
    const auto listed = list_pages(origin_, "d", kNever, all_);
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error().code, EIO);
    EXPECT_EQ(origin_.lists_of("d"), 2U);
}

TEST_F(ListPages, StagingAndPackingNoticeRepeatedPages) {
    origin_.repeat_pages(true);
    const auto staged = stage::list_source(origin_, kNever);
    ASSERT_FALSE(staged);
    EXPECT_EQ(staged.error().code, EIO);
    EXPECT_THAT(staged.error().message, HasSubstr("the same page again"));
    const auto packed = pack::list_tree(origin_, kNever);
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().code, EIO);
    EXPECT_THAT(packed.error().message, HasSubstr("the same page again"));
}

}  // namespace directory_walk_test
}  // namespace tierfs
