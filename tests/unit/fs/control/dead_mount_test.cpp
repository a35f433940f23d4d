#include "fs/control/dead_mount.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "fs/daemon/unmount.hpp"

namespace tierfs {
namespace dead_mount_test {

TEST(DeadMount, WordsHaveCommandsThatAShellReads) {
    MountEntry mount;
    mount.mountpoint = "/mnt/my data";
    mount.source = "s3://bucket/it's";
    mount.super_options = "rw,user_id=0";
    const auto writable = dead_mount_words(mount);
    EXPECT_NE(writable.find("`tierfs 's3://bucket/it'\\''s' '/mnt/my data' -o rw`"), std::string::npos)
        << writable;
    EXPECT_NE(writable.find("`tierfs umount '/mnt/my data'`"), std::string::npos) << writable;
    mount.mountpoint = "/mnt/data";
    mount.super_options = "ro,user_id=0";
    EXPECT_NE(dead_mount_words(mount).find("`tierfs 's3://bucket/it'\\''s' /mnt/data`"), std::string::npos);
}

TEST(DeadMount, IsWhatTheKernelCallsDisconnected) {
    std::string place = "/tmp/tierfs-dead-XXXXXX";
    ASSERT_NE(::mkdtemp(place.data()), nullptr);
    Settings settings;
    settings.mountpoint = place;
    settings.source = "/nowhere";
    if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0) {
        std::filesystem::remove(place);
        GTEST_SKIP() << "needs root and FUSE";
    }
    auto mounted = mount_fuse(settings);
    ASSERT_TRUE(mounted) << mounted.error().message;
    const auto entry = find_mount(read_mountinfo().value(), place);
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->group(), ::getgid());
    EXPECT_EQ(pulse_of(*entry), Pulse::ending) << "nobody listens, and nobody answers in time";
    mounted->device.reset();
    EXPECT_EQ(pulse_of(*entry), Pulse::dead);
    EXPECT_TRUE(unmount_fuse(place, mounted->number, true));
    EXPECT_NE(pulse_of(*entry), Pulse::dead) << "another one lies there, or none";
    std::filesystem::remove(place);
}

}  // namespace dead_mount_test
}  // namespace tierfs
