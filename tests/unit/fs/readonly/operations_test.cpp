#include "fs/readonly/operations.hpp"

#include <gtest/gtest.h>
#include <linux/fuse.h>

#include "fs/session/session.hpp"

namespace tierfs {
namespace operations_test {

NodeView view() {
    NodeView node;
    node.node = 17;
    node.inode = 99;
    node.attributes.size = 513;
    node.attributes.mode = 0640;
    node.attributes.mtime_ns = 1'500'000'001;
    node.attributes.ctime_ns = -1;
    node.valid_for = std::chrono::milliseconds(1500);
    return node;
}

TEST(FuseAttributes, ShowTheNode) {
    const auto shown = fuse_attributes(view(), false);
    EXPECT_EQ(shown.st_ino, 99U);
    EXPECT_EQ(shown.st_mode, S_IFREG | 0640U);
    EXPECT_EQ(shown.st_size, 513);
    EXPECT_EQ(shown.st_blocks, 2);
    EXPECT_EQ(shown.st_mtim.tv_sec, 1);
    EXPECT_EQ(shown.st_mtim.tv_nsec, 500'000'001);
    EXPECT_EQ(shown.st_ctim.tv_sec, -1);
    EXPECT_EQ(shown.st_ctim.tv_nsec, 999'999'999);
}

TEST(FuseAttributes, ShowTheKind) {
    auto node = view();
    node.attributes.kind = ObjectKind::directory;
    EXPECT_TRUE(S_ISDIR(fuse_attributes(node, false).st_mode));
    node.attributes.kind = ObjectKind::symlink;
    EXPECT_TRUE(S_ISLNK(fuse_attributes(node, false).st_mode));
    node.attributes.mode = 0170777;  // a kind among the permission bits does not count
    EXPECT_EQ(fuse_attributes(node, false).st_mode, S_IFLNK | 0777U);
}

TEST(FuseEntry, CarriesTheNodeAndItsTime) {
    const auto entry = fuse_entry(view(), false);
    EXPECT_EQ(entry.ino, 17U);
    EXPECT_DOUBLE_EQ(entry.attr_timeout, 1.5);
    EXPECT_DOUBLE_EQ(entry.entry_timeout, 1.5);
}

TEST(FuseSeconds, HaveBounds) {
    EXPECT_DOUBLE_EQ(fuse_seconds(std::chrono::milliseconds(-5)), 0);
    EXPECT_GE(fuse_seconds(kForever), 1e8);
    EXPECT_LE(fuse_seconds(kForever), 1e9);
}

TEST(OperationsTable, AnswersEveryKindOfRequest) {
    const auto& table = Operations::table();
    EXPECT_TRUE(table.lookup && table.getattr && table.readlink && table.open && table.read &&
                table.release && table.opendir && table.readdir && table.readdirplus && table.statfs &&
                table.getxattr && table.listxattr && table.flush);
    EXPECT_EQ(Operations::at_once(FUSE_FORGET), 0);
    EXPECT_EQ(Operations::at_once(FUSE_BATCH_FORGET), 0);
    EXPECT_EQ(Operations::at_once(FUSE_IOCTL), ENOTTY);
    EXPECT_EQ(Operations::at_once(FUSE_READ), SessionHandlers::kAsk);
    EXPECT_TRUE(table.create && table.write && table.mkdir && table.unlink && table.rename && table.setattr &&
                table.setxattr && table.link && table.symlink && table.mknod && table.rmdir);
}

}  // namespace operations_test
}  // namespace tierfs
