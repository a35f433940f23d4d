#include "fs/control/mountinfo.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace tierfs {
namespace mountinfo_test {

constexpr const char* kText =
    "22 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw\n"
    "97 28 0:52 / /mnt/my\\040data\\134x ro,nosuid,nodev shared:5 master:1 - fuse.tierfs s3://b/a\\040b "
    "ro,user_id=0\n"
    "98 28 0:53 / /mnt/d ro - fuse.tierfs /data ro\n"
    "99 98 259:1 /sub /mnt/d rw - ext4 /dev/nvme0n1 rw\n";

TEST(Mountinfo, ReadsDeviceTypeAndSource) {
    const auto mounts = parse_mountinfo(kText);
    ASSERT_EQ(mounts.size(), 4U);
    EXPECT_EQ(mounts[1].device(), "0:52");
    EXPECT_TRUE(mounts[1].is_tierfs());
    EXPECT_FALSE(mounts[0].is_tierfs());
    EXPECT_EQ(mounts[3].device(), "259:1");
}

TEST(Mountinfo, ReadsIdAndOptions) {
    const auto mounts = parse_mountinfo(kText);
    EXPECT_EQ(mounts[1].id, 97U);
    EXPECT_EQ(mounts[1].options, "ro,nosuid,nodev");
    EXPECT_EQ(mounts[1].super_options, "ro,user_id=0");
    EXPECT_TRUE(parse_mountinfo("x 2 0:1 / /x rw - t s o").empty());
    EXPECT_EQ(parse_mountinfo("1 2 0:1 / /x rw - t s").at(0).super_options, "");
}

TEST(Mountinfo, TellsWhoMounted) {
    const auto owner = [](const std::string& options) {
        return MountEntry{0, 0, 0, {}, {}, {}, {}, options}.owner();
    };
    EXPECT_EQ(parse_mountinfo(kText)[1].owner(), 0U);
    EXPECT_EQ(owner("rw,user_id=65534,group_id=0"), 65534U);
    for (const auto* none : {"", "rw", "user_id=", "user_id=x", "xuser_id=1", "user_id=-1", "user_id=1x"})
        EXPECT_EQ(owner(none), std::nullopt) << none;
}

TEST(Mountinfo, UndoesEscapes) {
    const auto mounts = parse_mountinfo(kText);
    EXPECT_EQ(mounts[1].mountpoint, "/mnt/my data\\x");
    EXPECT_EQ(mounts[1].source, "s3://b/a b");
}

TEST(Mountinfo, TheLastMountOnAPathIsOnTop) {
    const auto found = find_mount(parse_mountinfo(kText), "/mnt/d");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->type, "ext4");
    EXPECT_FALSE(find_mount(parse_mountinfo(kText), "/mnt"));
}

TEST(Mountinfo, WhoLiesOnWhomParentsTell) {
    // Mounted beneath the one on top (MOVE_MOUNT_BENEATH), and listed after it.
    const auto mounts = parse_mountinfo(
        "30 1 0:30 / /d rw - ext4 low rw\n"
        "31 33 0:31 / /d rw - fuse.tierfs top rw\n"
        "32 1 0:32 / /other rw - ext4 other rw\n"
        "33 30 0:33 / /d rw - fuse.tierfs beneath rw\n");
    ASSERT_EQ(mounts.size(), 4U);
    EXPECT_EQ(find_mount(mounts, "/d")->source, "top");
    std::string order;
    for (const auto& mount : mounts_on(mounts, "/d")) order += mount.source + " ";
    EXPECT_EQ(order, "low beneath top ");
    EXPECT_TRUE(mounts_on(mounts, "/").empty());
    EXPECT_TRUE(find_mount(parse_mountinfo("1 1 0:2 / / rw - rootfs rootfs rw\n"), "/"));
}

TEST(Mountinfo, TheLastIsOnTopWhereEachLiesOnAnother) {
    const auto mounts = parse_mountinfo("1 2 0:1 / /d rw - t first rw\n2 1 0:2 / /d rw - t second rw\n");
    EXPECT_EQ(find_mount(mounts, "/d")->source, "second");
}

TEST(Mountinfo, LeavesOutWhatIsNoLineOfIt) {
    EXPECT_TRUE(parse_mountinfo("").empty());
    EXPECT_TRUE(parse_mountinfo("\n\n \n").empty());
    EXPECT_TRUE(parse_mountinfo("1 2 3 / /x rw - t s o\n").empty());
    EXPECT_TRUE(parse_mountinfo("1 2 a:b / /x rw - t s o\n").empty());
    EXPECT_TRUE(parse_mountinfo("1 2 0:1 / /x rw no dash here at all\n").empty());
    EXPECT_TRUE(parse_mountinfo("1 2 0:1 / /x rw -").empty());
}

TEST(Mountinfo, KeepsABackslashThatEscapesNothing) {
    const auto mounts = parse_mountinfo("1 2 0:1 / /x\\9\\04 rw - t s o");
    ASSERT_EQ(mounts.size(), 1U);
    EXPECT_EQ(mounts[0].mountpoint, "/x\\9\\04");
}

TEST(Mountinfo, ResolvesAPathWithoutItsLastComponent) {
    const auto base = std::filesystem::temp_directory_path() / ("tierfs-mi-" + std::to_string(::getpid()));
    std::filesystem::create_directories(base / "real");
    std::filesystem::create_directory_symlink(base / "real", base / "link");
    const auto real = std::filesystem::canonical(base);
    EXPECT_EQ(resolve_mountpoint((base / "link" / "absent").string()).value_or(""),
              (real / "real/absent").string());
    EXPECT_EQ(resolve_mountpoint((base / "real/").string()).value_or(""), (real / "real").string());
    EXPECT_EQ(resolve_mountpoint("/").value_or(""), "/");
    EXPECT_FALSE(resolve_mountpoint((base / "none" / "x").string()));
    std::filesystem::remove_all(base);
}

}  // namespace mountinfo_test
}  // namespace tierfs
