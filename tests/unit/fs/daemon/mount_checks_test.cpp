#include "fs/daemon/mount_checks.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fs/daemon/unmount.hpp"

namespace tierfs {
namespace mount_checks_test {

namespace fs = std::filesystem;

class MountChecks : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = "/tmp/tierfs-checks-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        base_ = pattern;
        for (const char* name : {"mnt", "data/inner", "cache"}) fs::create_directories(base_ / name);
        settings_.mountpoint = base_ / "mnt";
        settings_.source = base_ / "data";
    }
    void TearDown() override { fs::remove_all(base_); }

    int code() {
        const auto checked = check_mount(settings_);
        if (checked) return 0;
        EXPECT_NE(checked.error().message.find('/'), std::string::npos) << "the message names no path";
        return checked.error().code;
    }

    fs::path base_;
    Settings settings_;
};

TEST_F(MountChecks, AcceptsAnEmptyDirectoryAndResolvesIt) {
    fs::create_directory_symlink(base_ / "mnt", base_ / "link");
    settings_.mountpoint = base_ / "link";
    EXPECT_EQ(check_mount(settings_).value_or(""), (base_ / "mnt").string());
}

TEST_F(MountChecks, RefusesWhatIsNoEmptyDirectory) {
    settings_.mountpoint = base_ / "absent";
    EXPECT_EQ(code(), ENOENT);
    std::ofstream(base_ / "file") << "x";
    settings_.mountpoint = base_ / "file";
    EXPECT_EQ(code(), ENOTDIR);
    settings_.mountpoint = base_ / "mnt";
    std::ofstream(base_ / "mnt" / "hidden") << "x";
    EXPECT_EQ(code(), ENOTEMPTY);
}

TEST_F(MountChecks, ABareDirectoryIsNoMount) {
    settings_.log_file = "/var/log/tierfs-test.log";
    const auto checked = check_mounted(settings_);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, EIO);
    EXPECT_NE(checked.error().message.find(settings_.log_file), std::string::npos);
    settings_.mountpoint = "/proc";
    EXPECT_FALSE(check_mounted(settings_)) << "a mount, but not of tierfs";
}

TEST_F(MountChecks, KeepsSourceMountPointAndCacheApart) {
    settings_.mountpoint = base_ / "data" / "inner";
    EXPECT_EQ(code(), EINVAL);
    settings_.mountpoint = base_ / "mnt";
    settings_.nvme_path = base_ / "data" / "inner";
    EXPECT_EQ(code(), EINVAL);
    settings_.nvme_path = base_;  // around the source
    EXPECT_EQ(code(), EINVAL);
    settings_.nvme_path = base_ / "mnt" / "cache";
    EXPECT_EQ(code(), EINVAL);
    settings_.nvme_path.clear();
    settings_.index_path = base_ / "data";
    EXPECT_EQ(code(), EINVAL);
    settings_.index_path = base_ / "cache";
    EXPECT_EQ(code(), 0);
}

TEST_F(MountChecks, SeesThroughLinksAndUrls) {
    fs::create_directory_symlink(base_ / "data", base_ / "alias");
    settings_.source = "file://" + (base_ / "alias").string();
    settings_.nvme_path = base_ / "data" / "inner";
    EXPECT_EQ(code(), EINVAL);
}

TEST_F(MountChecks, DecodesUrlsAsTheOriginDoes) {
    // "data", its first letter escaped.
    settings_.source = "file://" + base_.string() + "/%64ata";
    settings_.nvme_path = base_ / "data" / "inner";
    EXPECT_EQ(code(), EINVAL);
    EXPECT_EQ(source_directory("file:///a%20b"), "/a b");
    EXPECT_EQ(source_directory("/a%20b"), "/a%20b");
    EXPECT_EQ(source_directory("file://host/a"), "");
    EXPECT_EQ(source_directory("s3://bkt/a"), "");
}

TEST(IsWithin, ComparesWholeComponents) {
    EXPECT_TRUE(is_within("/a/b", "/a"));
    EXPECT_TRUE(is_within("/a", "/a"));
    EXPECT_TRUE(is_within("/a", "/"));
    EXPECT_FALSE(is_within("/ab", "/a"));
    EXPECT_FALSE(is_within("/a", "/a/b"));
}

TEST(MountOptions, AreSafeUnlessAskedOtherwise) {
    Settings settings;
    settings.source = "s3://b/a,b";
    EXPECT_EQ(mount_options(settings),
              "ro,nodev,nosuid,default_permissions,subtype=tierfs,fsname=s3://b/a\\,b");
    settings.allow_other = settings.allow_suid = true;
    const auto options = mount_options(settings);
    EXPECT_NE(options.find(",allow_other"), std::string::npos);
    EXPECT_NE(options.find("default_permissions"), std::string::npos);
    EXPECT_EQ(options.find("nosuid"), std::string::npos);
    settings.mount_flags = MS_NOSUID | MS_NOEXEC | MS_NODIRATIME | MS_SYNCHRONOUS | MS_DIRSYNC;
    // libfuse does not know nodiratime: it is set afterwards.
    EXPECT_TRUE(mount_options(settings).starts_with("ro,dev,nosuid,noexec,sync,dirsync,default_permissions,"))
        << mount_options(settings);
}

}  // namespace mount_checks_test
}  // namespace tierfs
