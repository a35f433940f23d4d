#include "fs/session/connection_record.hpp"

#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <set>

#include "fs/session/init_patch.hpp"

namespace tierfs {
namespace connection_record_test {

std::array<std::byte, 104> init_request(std::uint32_t flags2) {
    std::array<std::byte, 104> bytes{};
    fuse_in_header header{};
    header.opcode = FUSE_INIT;
    header.unique = 2;
    std::memcpy(bytes.data(), &header, sizeof(header));
    const std::array<std::uint32_t, 5> words{7, 45, 1 << 17, kInitExt, flags2};
    std::memcpy(bytes.data() + sizeof(header), words.data(), sizeof(words));
    return bytes;
}

class ConnectionRecordTest : public testing::Test {
  protected:
    std::unique_ptr<ConnectionRecord> record = ConnectionRecord::make().value();
};

/// Runs `body` in a child, which then dies as a killed daemon does.
template <typename Body>
void in_child(Body body) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        body();
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
}

TEST_F(ConnectionRecordTest, AnotherProgramMayAttachToIt) {
    record->set_index_identity("0123");
    record->count_reload();
    const auto ticket = record->add_open(7, 100, 3);
    const auto other = ConnectionRecord::attach(FileDescriptor(::dup(record->descriptor())));
    ASSERT_TRUE(other) << other.error().message;
    EXPECT_EQ((*other)->index_identity(), "0123");
    EXPECT_EQ((*other)->reloads(), 1U);
    EXPECT_EQ((*other)->started_ns(), record->started_ns());
    EXPECT_TRUE((*other)->remove_open(ticket));
    EXPECT_TRUE(record->opens().empty());
    record->set_index_identity(std::string(100, 'x'));
    EXPECT_EQ(record->index_identity(), std::string(64, 'x'));
}

TEST_F(ConnectionRecordTest, ARecordOfAnotherFormIsRefused) {
    const FileDescriptor file(::dup(record->descriptor()));
    std::uint64_t form = 0;
    ASSERT_EQ(::pread(file.get(), &form, sizeof(form), 0), 8);
    ++form;
    ASSERT_EQ(::pwrite(file.get(), &form, sizeof(form), 0), 8);
    EXPECT_FALSE(ConnectionRecord::attach(FileDescriptor(::dup(file.get()))));
    --form;
    ASSERT_EQ(::pwrite(file.get(), &form, sizeof(form), 0), 8);
    EXPECT_TRUE(ConnectionRecord::attach(FileDescriptor(::dup(file.get()))));
    FileDescriptor shorter(::memfd_create("record", MFD_CLOEXEC));
    EXPECT_FALSE(ConnectionRecord::attach(std::move(shorter)));
}

TEST_F(ConnectionRecordTest, WhatOneProcessWroteTheNextOneReads) {
    in_child([&] {
        record->keep_init(init_request(kInit2HasResend), 2);
        record->confirm_init();
        record->set_names_session(41);
        record->set_opens_without_asking();
        (void)record->add_open(7, 100, 3);
        (void)record->add_open(8, 102, 0);
    });
    const auto expected = init_request(kInit2HasResend);
    ASSERT_EQ(record->init().size(), expected.size());
    EXPECT_EQ(std::memcmp(record->init().data(), expected.data(), expected.size()), 0);
    EXPECT_TRUE(record->can_be_taken_over());
    EXPECT_EQ(record->stack_depth(), 2U);
    EXPECT_EQ(record->names_session(), 41U);
    EXPECT_TRUE(record->opens_without_asking());
    const auto opens = record->opens();
    ASSERT_EQ(opens.size(), 2U);
    EXPECT_EQ(opens[0].node, 7U);
    EXPECT_EQ(opens[0].backing_id, 3);
    EXPECT_EQ(opens[1].node, 8U);
    // Slots that the first left free are found, those in use are not given away.
    EXPECT_TRUE(record->remove_open(opens[0].ticket));
    std::set<std::uint64_t> tickets{opens[0].ticket, opens[1].ticket};
    for (std::uint64_t node = 10; node < 20; ++node)
        EXPECT_TRUE(tickets.insert(record->add_open(node, node, 0)).second) << "a ticket is used twice";
    EXPECT_EQ(record->opens().size(), 11U);
}

TEST_F(ConnectionRecordTest, NothingIsTakenOverBeforeInitIsAnswered) {
    EXPECT_FALSE(record->can_be_taken_over());
    record->keep_init(init_request(kInit2HasResend), 1);
    EXPECT_TRUE(record->init().empty());
    EXPECT_FALSE(record->can_be_taken_over());
    record->confirm_init();
    EXPECT_TRUE(record->can_be_taken_over());
}

TEST_F(ConnectionRecordTest, AKernelWithoutResendIsNotTakenOver) {
    record->keep_init(init_request(kInit2Passthrough), 1);
    record->confirm_init();
    EXPECT_FALSE(record->init().empty());
    EXPECT_FALSE(record->can_be_taken_over());
}

TEST_F(ConnectionRecordTest, AnEndThatComesTwiceEndsOneOpen) {
    const auto first = record->add_open(7, 2, 0);
    EXPECT_TRUE(record->remove_open(first));
    EXPECT_FALSE(record->remove_open(first));
    const auto second = record->add_open(9, 4, 0);  // in the same place
    EXPECT_FALSE(record->remove_open(first));
    ASSERT_EQ(record->opens().size(), 1U);
    EXPECT_EQ(record->opens()[0].ticket, second);
    EXPECT_FALSE(record->remove_open(0));
    EXPECT_FALSE(record->remove_open(~0ULL));
}

TEST_F(ConnectionRecordTest, FindsTheOpenOfARequestThatIsSentAgain) {
    (void)record->add_open(7, 2, 0);
    const auto ticket = record->add_open(8, 4, 6);
    const auto found = record->find_open(4 | kResent);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->ticket, ticket);
    EXPECT_EQ(found->backing_id, 6);
    EXPECT_FALSE(record->find_open(6 | kResent));
    EXPECT_TRUE(record->remove_open(ticket));
    EXPECT_FALSE(record->find_open(4 | kResent));
    record->remove_all_opens();
    EXPECT_TRUE(record->opens().empty());
}

}  // namespace connection_record_test
}  // namespace tierfs
