#include "tiering/prefetch/extent_runs.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace extent_runs_test {

PackedObject object(std::uint32_t extent, std::uint64_t offset, std::uint32_t stored) {
    PackedObject made;
    made.object = std::make_shared<const ObjectRef>();
    made.place.extent = extent;
    made.place.offset = offset;
    made.place.stored = stored;
    return made;
}

TEST(ExtentRuns, JoinsWhatLiesSideBySide) {
    ExtentRuns runs(1 << 20);
    EXPECT_FALSE(runs.take());
    EXPECT_FALSE(runs.add(object(0, 8192, 10'000), 0));
    EXPECT_FALSE(runs.add(object(0, 20'480, 100), 0));
    EXPECT_FALSE(runs.add(object(0, 20'580, 100), 0)) << "in the same page";
    EXPECT_FALSE(runs.add(object(0, 20'680 + ExtentRuns::kWidestGap, 100), 0));
    const auto run = runs.take();
    ASSERT_TRUE(run);
    EXPECT_EQ(run->begin, 8192U);
    EXPECT_EQ(run->end, align_up(20'780 + ExtentRuns::kWidestGap));
    EXPECT_EQ(run->objects.size(), 4U);
    EXPECT_FALSE(runs.take());
}

TEST(ExtentRuns, EndsWhereSomethingElseBegins) {
    const auto ends = [](PackedObject next, DatasetNumber dataset) {
        ExtentRuns runs(1 << 20);
        EXPECT_FALSE(runs.add(object(1, 1 << 20, 5000), 0));
        const auto before = runs.add(std::move(next), dataset);
        return before && before->objects.size() == 1 && runs.take()->objects.size() == 1;
    };
    const std::uint64_t end = (1 << 20) + 5000;
    EXPECT_FALSE(ends(object(1, align_up(end), 5000), 0));
    EXPECT_TRUE(ends(object(2, align_up(end), 5000), 0)) << "another extent";
    EXPECT_TRUE(ends(object(1, align_up(end), 5000), 1)) << "another dataset";
    EXPECT_TRUE(ends(object(1, end + ExtentRuns::kWidestGap + 1, 5000), 0)) << "far away";
    EXPECT_TRUE(ends(object(1, 0, 5000), 0)) << "before it";
    EXPECT_TRUE(ends(object(1, end - 1, 5000), 0)) << "within it";
    EXPECT_TRUE(ends(object(1, align_up(end), 1 << 20), 0)) << "too long together";
}

TEST(ExtentRuns, ALargeObjectIsARunByItself) {
    ExtentRuns runs(4096);
    EXPECT_FALSE(runs.add(object(0, 4096, 100'000), 0));
    const auto run = runs.add(object(0, 106'496, 100), 0);
    ASSERT_TRUE(run);
    EXPECT_EQ(run->bytes(), align_up(100'000));
}

}  // namespace extent_runs_test
}  // namespace tierfs
