#include "fs/session/replies.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace tierfs {
namespace replies_test {

TEST(RepliesTest, CreateCarriesAnEntryAndAnOpen) {
    fuse_entry_param entry{};
    entry.ino = 77;
    entry.generation = 1;
    entry.entry_timeout = 2.5;
    entry.attr_timeout = 1e12;  // for good
    entry.attr.st_ino = 5;
    entry.attr.st_mode = S_IFREG | 0640;
    entry.attr.st_size = 123456789012;
    entry.attr.st_uid = 8;
    entry.attr.st_gid = 9;
    entry.attr.st_nlink = 3;
    entry.attr.st_mtim = {100, 200};
    OpenReply open;
    open.handle = 4711;
    open.flags = kOpenPassthrough | kOpenNoFlush;
    open.backing_id = 42;

    const auto reply = created_reply(entry, open);

    fuse_entry_out out{};
    std::memcpy(&out, reply.data(), sizeof(out));
    EXPECT_EQ(out.nodeid, 77U);
    EXPECT_EQ(out.generation, 1U);
    EXPECT_EQ(out.entry_valid, 2U);
    EXPECT_EQ(out.entry_valid_nsec, 500'000'000U);
    EXPECT_EQ(out.attr_valid, 4'000'000'000U);
    EXPECT_EQ(out.attr_valid_nsec, 0U);
    EXPECT_EQ(out.attr.ino, 5U);
    EXPECT_EQ(out.attr.mode, static_cast<std::uint32_t>(S_IFREG | 0640));
    EXPECT_EQ(out.attr.size, 123456789012U);
    EXPECT_EQ(out.attr.uid, 8U);
    EXPECT_EQ(out.attr.gid, 9U);
    EXPECT_EQ(out.attr.nlink, 3U);
    EXPECT_EQ(out.attr.mtime, 100U);
    EXPECT_EQ(out.attr.mtimensec, 200U);
    fuse_open_out opened{};
    std::memcpy(&opened, &reply.at(sizeof(out)), sizeof(opened));
    EXPECT_EQ(opened.fh, 4711U);
    EXPECT_EQ(opened.open_flags, kOpenPassthrough | kOpenNoFlush);
    std::int32_t backing_id = 0;
    std::memcpy(&backing_id, &reply.at(reply.size() - sizeof(backing_id)), sizeof(backing_id));
    EXPECT_EQ(backing_id, 42);
}

TEST(RepliesTest, NoTimeIsNegative) {
    fuse_entry_param entry{};
    entry.entry_timeout = -1;
    const auto reply = created_reply(entry, {});
    fuse_entry_out out{};
    std::memcpy(&out, reply.data(), sizeof(out));
    EXPECT_EQ(out.entry_valid, 0U);
    EXPECT_EQ(out.entry_valid_nsec, 0U);
}

}  // namespace replies_test
}  // namespace tierfs
