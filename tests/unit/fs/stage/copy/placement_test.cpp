#include "fs/stage/copy/placement.hpp"

#include <gtest/gtest.h>

#include "tests/unit/fs/stage/copy/temporary_folder.hpp"

namespace tierfs::stage {

namespace placement_test {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(StagePlacement, FilesGoWhereMostIsFree) {
    Placement placement({{"1:1", 10 * kMiB, true}, {"1:2", 20 * kMiB, true}});
    EXPECT_EQ(placement.place(8 * kMiB), 1U);
    EXPECT_EQ(placement.place(8 * kMiB), 1U);
    EXPECT_EQ(placement.place(8 * kMiB), 0U);
    EXPECT_EQ(placement.place(8 * kMiB), std::nullopt);
    EXPECT_EQ(placement.place(kMiB), 1U);
}

TEST(StagePlacement, TheWantedNodeIsFilledFirst) {
    Placement placement({{"1:1", 100 * kMiB, false}, {"1:2", 10 * kMiB, true}});
    EXPECT_EQ(placement.place(6 * kMiB), 1U);
    EXPECT_EQ(placement.place(6 * kMiB), 0U);
    Placement none({{"1:1", 100 * kMiB, false}, {"1:2", 10 * kMiB, false}});
    EXPECT_EQ(none.place(kMiB), 0U);
}

TEST(StagePlacement, FoldersOfOneDeviceShareItsRoom) {
    Placement placement({{"1:1", 10 * kMiB, true}, {"1:1", 10 * kMiB, true}});
    EXPECT_EQ(placement.place(4 * kMiB), 0U);
    EXPECT_EQ(placement.place(4 * kMiB), 1U);
    EXPECT_EQ(placement.place(4 * kMiB), std::nullopt);
    EXPECT_FALSE(placement.take(0, 3 * kMiB));
    EXPECT_TRUE(placement.take(0, kMiB));
}

TEST(StagePlacement, NothingIsFreeOfCharge) {
    EXPECT_GT(Placement::cost_of(0), 0U);
    EXPECT_GE(Placement::cost_of(1), 4096U);
}

TEST(StagePlacement, KeepFreeIsASizeOrAShare) {
    EXPECT_EQ(parse_keep_free("5%")->of(1000), 50U);
    EXPECT_EQ(parse_keep_free("0.5%")->of(1000), 5U);
    EXPECT_EQ(parse_keep_free("0")->of(1000), 0U);
    EXPECT_EQ(parse_keep_free("2M")->of(1000), 2 * kMiB);
    for (const char* wrong : {"", "%", "100%", "-1%", "x", "5 %", "nan%", "1e9%"})
        EXPECT_FALSE(parse_keep_free(wrong)) << wrong;
}

TEST(StagePlacement, TheNodeOfADeviceComesFromSysfs) {
    const TemporaryFolder sys;
    sys.write("devices/pci0/0000:01:00.0/numa_node", "1\n");
    sys.write("devices/pci0/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p1/partition", "1\n");
    sys.write("devices/virtual/block/md0/size", "1\n");
    std::filesystem::create_directories(sys / "dev/block");
    std::filesystem::create_directory_symlink("../../devices/pci0/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p1",
                                              sys / "dev/block/259:1");
    std::filesystem::create_directory_symlink("../../devices/virtual/block/md0", sys / "dev/block/9:0");
    EXPECT_EQ(numa_node_of("259:1", sys.path().string()), 1);
    EXPECT_EQ(numa_node_of("9:0", sys.path().string()), -1);
    std::filesystem::create_directories(sys / "devices/virtual/block/md0/slaves");
    std::filesystem::create_directory_symlink("../../../../pci0/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p1",
                                              sys / "devices/virtual/block/md0/slaves/nvme0n1p1");
    EXPECT_EQ(numa_node_of("9:0", sys.path().string()), 1);
    EXPECT_EQ(numa_node_of("8:0", sys.path().string()), -1);
}

}  // namespace placement_test
}  // namespace tierfs::stage
