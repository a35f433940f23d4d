#include "fs/observe/source_advice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tierfs {
namespace source_advice_test {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<MountEntry> mounts(const std::string& options, const std::string& super) {
    return parse_mountinfo(
        "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
        "30 22 0:50 / /mnt/nfs " +
        options + " - nfs4 server:/data " + super +
        "\n"
        "31 22 0:51 / /mnt/nfs\\040two rw - lustre mgs@tcp:/fs rw\n"
        "32 30 0:52 / /mnt/nfs/over rw - nfs old:/x rw,vers=3,rsize=32768,nconnect=2\n"
        "33 30 0:53 / /mnt/nfs/over rw - beegfs beegfs_nodev rw\n"
        "34 22 0:54 / /gpfs/fs1 rw,relatime - gpfs fs1 rw\n"
        "35 22 0:55 / /ceph rw - ceph mon:/ rw\n");
}

TEST(SourceAdvice, FindsTheMountThatADirectoryLiesOn) {
    const auto all = mounts("rw", "rw");
    EXPECT_EQ(source_file_system(all, "/data", false).type, "ext4");
    EXPECT_EQ(source_file_system(all, "/mnt/nfs", false).type, "nfs4");
    EXPECT_EQ(source_file_system(all, "/mnt/nfs/deep/er", false).mountpoint, "/mnt/nfs");
    EXPECT_EQ(source_file_system(all, "/mnt/nfs two/x", false).type, "lustre");
    EXPECT_EQ(source_file_system(all, "/mnt/nfs/over/x", false).type, "beegfs") << "it covers the other";
    EXPECT_EQ(source_file_system(all, "/gpfs/fs1/set", false).type, "gpfs");
    EXPECT_EQ(source_file_system({}, "/data", false).type, "");
    EXPECT_FALSE(source_file_system(all, "/data", false).is_shared());
}

TEST(SourceAdvice, OfFileSystemsThatNodesShareSaysNothingOfNfs) {
    const auto all = mounts("rw", "rw,rsize=4096");
    for (const char* directory : {"/mnt/nfs two", "/mnt/nfs/over", "/gpfs/fs1/set", "/ceph"}) {
        const auto found = source_file_system(all, directory, true);
        EXPECT_TRUE(found.is_shared()) << found.type;
        EXPECT_THAT(found.advice, IsEmpty()) << found.type;
    }
    EXPECT_TRUE(source_file_system(all, "/mnt/nfs", false).is_shared());
}

TEST(SourceAdvice, OfANfsMountSaysWhatToChange) {
    const auto advice = [](const std::string& options, const std::string& super, bool writable = false) {
        return source_file_system(mounts(options, super), "/mnt/nfs/x", writable).advice;
    };
    EXPECT_THAT(
        advice("ro,noatime",
               "ro,vers=4.2,rsize=1048576,wsize=65536,acregmin=600,acregmax=600,nconnect=8,lookupcache=all"),
        IsEmpty());
    const auto poor = advice("rw,relatime", "rw,vers=4.2,rsize=65536,wsize=65536,lookupcache=none");
    for (const char* word : {"rsize=1048576", "nconnect=8", "noatime", "actimeo=600", "lookupcache=all"})
        EXPECT_THAT(poor, Contains(HasSubstr(word))) << word;
    EXPECT_THAT(poor, Not(Contains(HasSubstr("wsize"))));
    EXPECT_THAT(advice("rw", "rw,wsize=65536", true), Contains(HasSubstr("wsize=1048576")));
    EXPECT_THAT(advice("rw", "rw,noac"), Contains(HasSubstr("without noac")));
    EXPECT_THAT(advice("rw", "rw,noac"), Not(Contains(HasSubstr("actimeo"))));
}

}  // namespace source_advice_test
}  // namespace tierfs
