// Owners of one file of a mount beside each other and beside somebody who locks the file itself.
#include "fs/readwrite/file_locks.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>

#include "backends/dir/posix_directory.hpp"

namespace tierfs {
namespace file_locks_test {

using Kind = FileLock::Kind;
using namespace std::chrono_literals;

class FileLocksTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = (std::filesystem::temp_directory_path() / "tierfs-locks-XXXXXX").string();
        native_.reset(::mkstemp(path.data()));
        ASSERT_TRUE(native_.valid());
        path_ = path;
    }
    void TearDown() override { ::unlink(path_.c_str()); }

    PosixFilePtr open(int flags) {
        FileDescriptor file(::open(path_.c_str(), flags | O_CLOEXEC));
        EXPECT_TRUE(file.valid());
        return make_posix_file(std::move(file), std::make_shared<PosixCounters>());
    }
    /// Owners are numbered; each asks through an open file of its own, 100 on for reading, 200 on for
    /// writing.
    LockAsker reader(std::uint64_t owner) {
        return {owner, 100 + owner, false, static_cast<pid_t>(1000 + owner), open(O_RDONLY)};
    }
    LockAsker writer(std::uint64_t owner) {
        return {owner, 200 + owner, true, static_cast<pid_t>(1000 + owner), open(O_RDWR)};
    }
    static LockWish range(Kind kind, std::uint64_t first, std::uint64_t last) {
        return {false, {kind, first, last, 0}};
    }
    static LockWish whole(Kind kind) { return {true, {kind, 0, FileLock::kEnd, 0}}; }
    int set(const LockAsker& asker, const LockWish& wish) {
        const auto done = locks_.set(asker, wish);
        return done ? 0 : done.error().code;
    }
    /// What somebody who opens the file itself can lock.
    bool is_free(Kind kind, std::uint64_t first, std::uint64_t last) {
        auto wanted = flock_of({kind, first, last, 0});
        EXPECT_EQ(::fcntl(native_.get(), F_OFD_GETLK, &wanted), 0);
        return wanted.l_type == F_UNLCK;
    }

    std::string path_;
    FileDescriptor native_;
    FileLocks locks_;
};

TEST_F(FileLocksTest, OwnersExcludeEachOtherAndThoseOutside) {
    EXPECT_EQ(set(writer(1), range(Kind::exclusive, 0, 9)), 0);
    EXPECT_EQ(set(writer(2), range(Kind::shared, 9, 20)), EAGAIN);
    EXPECT_TRUE(locks_.is_ours_in_the_way(writer(2), range(Kind::shared, 9, 20)));
    EXPECT_EQ(set(writer(2), range(Kind::shared, 10, 20)), 0);
    EXPECT_FALSE(is_free(Kind::shared, 0, 0));
    EXPECT_FALSE(is_free(Kind::exclusive, 20, 20));
    EXPECT_TRUE(is_free(Kind::shared, 10, 20));
    EXPECT_EQ(set(writer(1), range(Kind::none, 0, 4)), 0);
    EXPECT_TRUE(is_free(Kind::exclusive, 0, 4));
    EXPECT_FALSE(is_free(Kind::exclusive, 5, 9));
    EXPECT_EQ(set(writer(1), range(Kind::none, 0, FileLock::kEnd)), 0);
    EXPECT_EQ(set(writer(2), range(Kind::none, 0, FileLock::kEnd)), 0);
    EXPECT_TRUE(locks_.empty());
}

TEST_F(FileLocksTest, AnOwnerIsNotInItsOwnWayWithAnotherDescriptor) {
    EXPECT_EQ(set(reader(1), range(Kind::shared, 0, 99)), 0);
    EXPECT_EQ(set(reader(1), range(Kind::shared, 200, 299)), 0);
    EXPECT_EQ(set(writer(1), range(Kind::exclusive, 10, 19)), 0);
    EXPECT_FALSE(is_free(Kind::shared, 10, 19));
    EXPECT_TRUE(is_free(Kind::shared, 0, 9));
    EXPECT_FALSE(is_free(Kind::exclusive, 0, 9)) << "the shared ones are kept";
    EXPECT_FALSE(is_free(Kind::exclusive, 200, 299));
    EXPECT_EQ(set(reader(1), range(Kind::shared, 10, 19)), 0);
    EXPECT_TRUE(is_free(Kind::shared, 0, 300));
    locks_.flushed(1, 101, {});
    EXPECT_TRUE(is_free(Kind::exclusive, 0, FileLock::kEnd));
    EXPECT_TRUE(locks_.empty());
}

TEST_F(FileLocksTest, AnUpgradeThatFailsLeavesWhatWasThere) {
    EXPECT_EQ(set(reader(1), range(Kind::shared, 0, 99)), 0);
    EXPECT_EQ(set(reader(2), range(Kind::shared, 50, 59)), 0);
    EXPECT_EQ(set(writer(1), range(Kind::exclusive, 0, 99)), EAGAIN);
    EXPECT_TRUE(is_free(Kind::shared, 0, 99));
    EXPECT_FALSE(is_free(Kind::exclusive, 0, 49));
    EXPECT_EQ(set(writer(1), range(Kind::exclusive, 0, 49)), 0);
}

TEST_F(FileLocksTest, WhoseALockIs) {
    EXPECT_EQ(set(writer(1), range(Kind::exclusive, 10, 19)), 0);
    auto found = locks_.in_the_way(reader(2), {Kind::shared, 0, FileLock::kEnd, 0});
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, (FileLock{Kind::exclusive, 10, 19, 1001}));
    found = locks_.in_the_way(reader(1), {Kind::exclusive, 0, FileLock::kEnd, 0});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->kind, Kind::none) << "its own";
    auto outside = flock_of({Kind::exclusive, 100, 109, 0});
    ASSERT_EQ(::fcntl(native_.get(), F_OFD_SETLK, &outside), 0);
    found = locks_.in_the_way(reader(1), {Kind::shared, 0, FileLock::kEnd, 0});
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, (FileLock{Kind::exclusive, 100, 109, -1}));
}

TEST_F(FileLocksTest, WholeFilesBelongToOpenFiles) {
    EXPECT_EQ(set(reader(1), whole(Kind::shared)), 0);
    EXPECT_EQ(set(reader(2), whole(Kind::shared)), 0);
    EXPECT_EQ(::flock(native_.get(), LOCK_EX | LOCK_NB), -1);
    EXPECT_EQ(set(writer(3), range(Kind::exclusive, 0, FileLock::kEnd)), 0) << "another kind of lock";
    EXPECT_EQ(set(reader(1), whole(Kind::exclusive)), EAGAIN);
    EXPECT_EQ(set(reader(2), whole(Kind::exclusive)), 0) << "the first lost its own when it asked for more";
    locks_.flushed(2, 102, {});
    EXPECT_EQ(::flock(native_.get(), LOCK_SH | LOCK_NB), -1) << "another descriptor may be open";
    locks_.released(102);
    EXPECT_EQ(::flock(native_.get(), LOCK_EX | LOCK_NB), 0);
    EXPECT_EQ(set(reader(1), whole(Kind::shared)), EAGAIN);
    locks_.released(203);
    EXPECT_TRUE(locks_.empty()) << "what is left of an owner when its only open file is gone";
}

TEST_F(FileLocksTest, WhatIsBeingClosedIsWaitedForAMoment) {
    const auto now = FileLocks::Clock::now();
    EXPECT_EQ(set(reader(1), whole(Kind::exclusive)), 0);
    EXPECT_EQ(set(reader(2), whole(Kind::shared)), EAGAIN);
    EXPECT_FALSE(locks_.is_leaving(reader(2), whole(Kind::shared), now));
    locks_.flushed(1, 101, now);
    EXPECT_TRUE(locks_.is_leaving(reader(2), whole(Kind::shared), now + 10ms));
    EXPECT_FALSE(locks_.is_leaving(reader(2), whole(Kind::shared), now + 1s));
    EXPECT_EQ(set(reader(1), whole(Kind::exclusive)), 0);
    EXPECT_FALSE(locks_.is_leaving(reader(2), whole(Kind::shared), now + 10ms)) << "it is open, then";
}

TEST_F(FileLocksTest, WhatNobodyHeardOfIsTakenBack) {
    const auto asker = writer(1);
    EXPECT_EQ(set(asker, range(Kind::shared, 0, 9)), 0);
    auto wish = range(Kind::exclusive, 5, 19);
    auto change = locks_.set(asker, wish);
    ASSERT_TRUE(change);
    EXPECT_TRUE(change->gave_way());
    locks_.undo(asker, wish, *change);
    EXPECT_TRUE(is_free(Kind::exclusive, 10, 19));
    EXPECT_TRUE(is_free(Kind::shared, 0, 9));
    EXPECT_FALSE(is_free(Kind::exclusive, 0, 9));
    wish = range(Kind::none, 0, 9);
    change = locks_.set(asker, wish);
    ASSERT_TRUE(change);
    locks_.undo(asker, wish, *change);
    EXPECT_TRUE(is_free(Kind::exclusive, 0, FileLock::kEnd)) << "what was let go stays so";
    EXPECT_EQ(set(asker, range(Kind::shared, 0, 9)), 0);
    wish = range(Kind::exclusive, 0, 9);
    change = locks_.set(asker, wish);
    ASSERT_TRUE(change);
    locks_.flushed(1, 201, {});
    locks_.undo(asker, wish, *change);
    EXPECT_TRUE(locks_.empty()) << "nobody is left";
}

TEST_F(FileLocksTest, WhatWasAskedForAgainIsNotTakenBack) {
    const auto asker = writer(1);
    for (const auto& wish : {range(Kind::exclusive, 10, 29), whole(Kind::exclusive)}) {
        auto unheard = locks_.set(asker, wish);
        ASSERT_TRUE(unheard);
        EXPECT_EQ(set(asker, wish.whole ? wish : range(Kind::exclusive, 0, 19)), 0);
        locks_.undo(asker, wish, *unheard);
        EXPECT_TRUE(locks_.is_ours_in_the_way(writer(2), wish));
    }
    EXPECT_FALSE(is_free(Kind::shared, 0, 0));
    EXPECT_FALSE(is_free(Kind::shared, 19, 19));
    EXPECT_TRUE(is_free(Kind::exclusive, 20, FileLock::kEnd)) << "but what was not";
    auto wish = range(Kind::exclusive, 10, 29);
    auto unheard = locks_.set(asker, wish);
    ASSERT_TRUE(unheard);
    unheard->on = nullptr;  // it would keep the lock
    locks_.flushed(1, 201, {});
    EXPECT_EQ(set(asker, wish), 0) << "by another owner with the same number, perhaps";
    locks_.undo(asker, wish, *unheard);
    EXPECT_FALSE(is_free(Kind::shared, 10, 29));
}

TEST_F(FileLocksTest, AnOpenFileThatEndsLateTakesNoLocksOfTheNextOne) {
    auto one = writer(1), next = writer(1);
    next.handle = 301;
    EXPECT_EQ(set(one, range(Kind::exclusive, 0, 19)), 0);
    EXPECT_EQ(set(one, range(Kind::exclusive, 40, 49)), 0);
    EXPECT_EQ(set(next, range(Kind::exclusive, 10, 29)), 0);
    locks_.released(one.handle);
    EXPECT_TRUE(is_free(Kind::exclusive, 0, 9));
    EXPECT_TRUE(is_free(Kind::exclusive, 40, 49));
    EXPECT_FALSE(is_free(Kind::shared, 10, 10));
    EXPECT_FALSE(is_free(Kind::shared, 29, 29));
    EXPECT_TRUE(locks_.is_ours_in_the_way(writer(2), range(Kind::shared, 10, 10)));
    locks_.released(next.handle);
    EXPECT_TRUE(locks_.empty());
    EXPECT_TRUE(is_free(Kind::exclusive, 0, FileLock::kEnd));
}

}  // namespace file_locks_test
}  // namespace tierfs
