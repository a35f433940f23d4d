#include "fs/daemon/cache_directory.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace tierfs {
namespace cache_directory_test {

namespace fs = std::filesystem;

class CacheDirectory : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = "/tmp/tierfs-cachedir-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        base_ = pattern;
    }
    void TearDown() override { fs::remove_all(base_); }
    fs::path base_;
    FolderLocks locks_;
};

TEST_F(CacheDirectory, IsPrivateAndSaysWhatItIs) {
    const auto folder = LockedFolder::open(base_, "dir:/data", "nvme.path", locks_);
    ASSERT_TRUE(folder) << folder.error().message;
    struct stat found {};
    ASSERT_EQ(::stat(folder->path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0700U);
    std::string text;
    std::getline(std::ifstream(folder->path / "source"), text);
    EXPECT_NE(text.find("dir:/data"), std::string::npos);
}

TEST_F(CacheDirectory, HasOneUserAtATimeAndNamesIt) {
    auto first = LockedFolder::open(base_, "dir:/data", "nvme.path", locks_);
    ASSERT_TRUE(first);
    const auto second = LockedFolder::open(base_, "dir:/data", "nvme.path", locks_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EBUSY);
    EXPECT_NE(second.error().message.find("pid " + std::to_string(::getpid())), std::string::npos);
    EXPECT_TRUE(LockedFolder::open(base_, "dir:/other", "nvme.path", locks_));
    first->lock.reset();
    EXPECT_TRUE(LockedFolder::open(base_, "dir:/data", "nvme.path", locks_));
}

TEST_F(CacheDirectory, NamesThePlaceThatDoesNotExist) {
    const auto folder = LockedFolder::open(base_ / "absent" / "cache", "dir:/data", "nvme.path", locks_);
    ASSERT_FALSE(folder);
    EXPECT_NE(folder.error().message.find("nvme.path " + (base_ / "absent" / "cache").string()),
              std::string::npos);
}

TEST_F(CacheDirectory, MakesTheFolderButNotItsParents) {
    EXPECT_TRUE(LockedFolder::open(base_ / "new", "dir:/data", "nvme.path", locks_));
    EXPECT_TRUE(fs::is_directory(base_ / "new"));
    EXPECT_FALSE(LockedFolder::open(base_ / "absent" / "cache", "dir:/data", "nvme.path", locks_));
    EXPECT_FALSE(fs::exists(base_ / "absent"));
}

TEST_F(CacheDirectory, ScratchIsRemovedAndWhatIsLeftOverIsSwept) {
    fs::create_directories(base_ / "mnt" / "mount-1");
    const auto scratch_base = base_ / "scratch";
    fs::create_directories(scratch_base / "mount-999999999");
    std::ofstream(scratch_base / "mount-999999999" / "lock") << "999999999\n";
    std::ofstream(scratch_base / "other") << "stays";
    fs::path path;
    {
        auto scratch = ScratchDirectory::make(scratch_base);
        ASSERT_TRUE(scratch) << scratch.error().message;
        const ScratchDirectory moved = std::move(*scratch);
        path = moved.path();
        EXPECT_TRUE(fs::is_directory(path));
        EXPECT_FALSE(fs::exists(scratch_base / "mount-999999999"));
    }
    EXPECT_FALSE(fs::exists(path));
    EXPECT_TRUE(fs::exists(scratch_base / "other"));
}

/// Anybody may have made it before.
TEST_F(CacheDirectory, AFolderInTmpIsThisUsersAlone) {
    const fs::path shared = "/tmp/tierfs-test-" + std::to_string(::getpid());
    fs::create_directories(base_ / "theirs");
    fs::create_directory_symlink(base_ / "theirs", shared);
    EXPECT_FALSE(ScratchDirectory::make(shared)) << "a link";
    EXPECT_TRUE(fs::is_empty(base_ / "theirs"));
    fs::remove(shared);
    fs::create_directory(shared);
    fs::permissions(shared, fs::perms::all);
    EXPECT_TRUE(ScratchDirectory::make(shared));
    EXPECT_EQ(fs::status(shared).permissions(), fs::perms::owner_all);
    fs::remove_all(shared);
}

}  // namespace cache_directory_test
}  // namespace tierfs
