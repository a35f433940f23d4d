#include "fs/readonly/profile.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace profile_test {

constexpr FileSizes kSmallDataset{1000, 501};
constexpr FileSizes kLargeDataset{1000, 500};
constexpr FileSizes kLittleKnown{999, 999};

Settings with(Profile profile) {
    Settings settings;
    settings.profile = profile;
    return settings;
}

TEST(MountProfile, DoesWhatItIsAskedFor) {
    MountProfile small(with(Profile::small));
    EXPECT_TRUE(small.answers_without_opens({}, 0));
    EXPECT_EQ(small.status({}, 0).kind, "small");
    MountProfile large(with(Profile::large));
    EXPECT_FALSE(large.answers_without_opens(kSmallDataset, 0));
    EXPECT_EQ(large.status({}, 0).kind, "large");
    EXPECT_NE(large.status({}, 0).reason.find("profile=large"), std::string::npos);
}

TEST(MountProfile, IsLargeWhereFilesAreWritten) {
    auto settings = with(Profile::small);
    settings.read_only = false;
    MountProfile profile(settings);
    EXPECT_FALSE(profile.answers_without_opens(kSmallDataset, 0));
    EXPECT_EQ(profile.status({}, 0).reason, "read-write mount");
}

TEST(MountProfile, AutoJudgesByAThousandFiles) {
    MountProfile profile(with(Profile::automatic));
    EXPECT_FALSE(profile.answers_without_opens(kLittleKnown, 0));
    EXPECT_EQ(profile.status(kLittleKnown, 0).kind, "large");
    EXPECT_NE(profile.status(kLittleKnown, 0).reason.find("999"), std::string::npos);
    EXPECT_FALSE(profile.answers_without_opens(kLargeDataset, 0));
    EXPECT_TRUE(profile.answers_without_opens(kSmallDataset, 0));
    EXPECT_EQ(profile.status(kSmallDataset, 0).kind, "small");
}

TEST(MountProfile, AutoSwitchesOnce) {
    MountProfile profile(with(Profile::automatic));
    EXPECT_TRUE(profile.answers_without_opens(kSmallDataset, 0));
    const auto reason = profile.status(kSmallDataset, 0).reason;
    EXPECT_TRUE(profile.answers_without_opens(kLargeDataset, 5)) << "the kernel does not go back";
    EXPECT_EQ(profile.status(kLargeDataset, 5).reason, reason);
}

TEST(MountProfile, AutoWaitsForPassthroughFiles) {
    MountProfile profile(with(Profile::automatic));
    EXPECT_FALSE(profile.answers_without_opens(kSmallDataset, 1));
    EXPECT_NE(profile.status(kSmallDataset, 1).reason.find("waits for the end of 1"), std::string::npos);
    EXPECT_TRUE(profile.answers_without_opens(kSmallDataset, 0));
}

TEST(MountProfile, CachesDirectoriesForGoodOnlyWhereNothingChanges) {
    auto settings = with(Profile::small);
    EXPECT_FALSE(MountProfile(settings).lists_without_opens());
    settings.metadata_ttl = kForever;
    EXPECT_TRUE(MountProfile(settings).lists_without_opens());
    settings.profile = Profile::large;
    EXPECT_FALSE(MountProfile(settings).lists_without_opens());
}

TEST(FileSizes, AreCounted) {
    FileSizeCounter counter;
    counter.add(0);
    counter.add((1 << 20) - 1);
    counter.add(1 << 20);
    EXPECT_EQ(counter.get().files, 3U);
    EXPECT_EQ(counter.get().small, 2U);
}

}  // namespace profile_test
}  // namespace tierfs
