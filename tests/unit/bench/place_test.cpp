#include "bench/iobench/run/place.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tierfs::iobench {
namespace place_test {

namespace fs = std::filesystem;

constexpr const char* kTable =
    "22 27 0:21 / / rw,relatime - ext4 /dev/root rw\n"
    "30 22 7:3 / /data rw,noatime shared:5 master:1 - xfs /dev/loop3 rw,noatime,attr2\n"
    "31 22 0:52 / /mnt/my\\040data ro,nosuid - fuse.tierfs s3://b/p\\134x ro,user_id=0\n"
    "32 22 0:53 / /data rw - tmpfs tmpfs rw\n";

TEST(MountInfo, HasPlaceTypeSourceAndOptions) {
    const auto mounts = parse_mountinfo(kTable);
    ASSERT_EQ(mounts.size(), 4);
    EXPECT_EQ(mounts[1], (MountInfo{.device = "7:3",
                                    .point = "/data",
                                    .type = "xfs",
                                    .source = "/dev/loop3",
                                    .options = "rw,noatime,attr2"}));
    EXPECT_EQ(mounts[2], (MountInfo{.device = "0:52",
                                    .point = "/mnt/my data",
                                    .type = "fuse.tierfs",
                                    .source = "s3://b/p\\x",
                                    .options = "ro,nosuid,user_id=0"}));
}

TEST(MountInfo, LastOfTheLongestIsOnTop) {
    const auto mounts = parse_mountinfo(kTable);
    EXPECT_EQ(mount_of(mounts, "/data/a")->type, "tmpfs");
    EXPECT_EQ(mount_of(mounts, "/data")->type, "tmpfs");
    EXPECT_EQ(mount_of(mounts, "/database")->type, "ext4");
    EXPECT_EQ(mount_of(mounts, "/mnt/my data/x")->type, "fuse.tierfs");
    EXPECT_EQ(mount_of({}, "/"), nullptr);
}

TEST(MountInfo, OtherLinesAreLeftOut) {
    EXPECT_TRUE(parse_mountinfo("").empty());
    EXPECT_TRUE(parse_mountinfo("\n\n \n- - -\n1 2 3\n").empty());
    EXPECT_TRUE(parse_mountinfo("30 22 7:3 / /data rw - xfs\n").empty());
    EXPECT_TRUE(parse_mountinfo("30 22 7:3 / /data rw xfs /dev/x rw\n").empty());
    const auto short_one =
        parse_mountinfo("30 22 7:3 / /data rw - xfs source\n30 22 7:3 / /end\\04 rw - a b c");
    ASSERT_EQ(short_one.size(), 2);
    EXPECT_EQ(short_one[0].options, "rw");
    EXPECT_EQ(short_one[1].point, "/end\\04");
}

/// A sysfs with the disk 8:0, its partition 8:1 and the loop device 7:3.
class Device : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-sys-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        sys_ = pattern;
        write("devices/pci/sda/device/model", "Fast Disk 3000   \n");
        write("devices/pci/sda/sda1/partition", "1\n");
        write("devices/virtual/loop3/loop/backing_file", "/var/disk.img\n");
        fs::create_directories(sys_ / "dev/block");
        fs::create_symlink("../../devices/pci/sda", sys_ / "dev/block/8:0");
        fs::create_symlink("../../devices/pci/sda/sda1", sys_ / "dev/block/8:1");
        fs::create_symlink("../../devices/virtual/loop3", sys_ / "dev/block/7:3");
    }
    void TearDown() override { fs::remove_all(sys_); }
    void write(const std::string& name, const std::string& text) const {
        fs::create_directories((sys_ / name).parent_path());
        std::ofstream(sys_ / name) << text;
    }
    [[nodiscard]] std::optional<ResultDevice> device(const std::string& number) const {
        return device_of({.device = number, .point = "/", .type = "x", .source = "x", .options = ""}, sys_);
    }
    fs::path sys_;
};

TEST_F(Device, HasNameAndModel) {
    EXPECT_EQ(device("8:0"), (ResultDevice{"sda", "Fast Disk 3000", {}}));
    EXPECT_EQ(device("8:1"), (ResultDevice{"sda1", "Fast Disk 3000", {}}));
    EXPECT_EQ(device("7:3"), (ResultDevice{"loop3", "/var/disk.img", {}}));
}

TEST_F(Device, IsNoneOfAFileSystemWithoutOne) {
    EXPECT_EQ(device("0:52"), std::nullopt);
    EXPECT_EQ(device("9:9"), std::nullopt);
    EXPECT_EQ(device(""), std::nullopt);
}

TEST(Describe, KnowsWhereThisFolderIs) {
    const Place place = describe("here", ".");
    EXPECT_EQ(place.target.name, "here");
    EXPECT_FALSE(place.target.fs_type.empty());
    EXPECT_TRUE(place.target.mount_point.starts_with("/"));
    EXPECT_EQ(describe("proc", "/proc/self").target.fs_type, "proc");
}

}  // namespace place_test
}  // namespace tierfs::iobench
