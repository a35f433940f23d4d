#include "fs/daemon/folder_locks.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace tierfs {
namespace folder_locks_test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// The daemon's side of the line to a supervisor, which keeps what it hears of.
class FolderLocksTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = "/tmp/tierfs-locks-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        base_ = pattern;
    }
    void TearDown() override { fs::remove_all(base_); }

    FolderLocks::Tell supervisor() {
        return [this](const std::string& folder, int descriptor) {
            if (descriptor < 0) {
                given_up_ += kept_.erase(folder);
            } else {
                kept_[folder].reset(::dup(descriptor));
            }
        };
    }
    bool is_free() { return lock_folder(base_, 0ms).has_value(); }

    fs::path base_;
    std::map<std::string, FileDescriptor> kept_;
    std::size_t given_up_ = 0;
};

TEST_F(FolderLocksTest, EndWithTheirPointer) {
    FolderLocks locks(supervisor());
    auto lock = locks.lock(base_, 0ms);
    ASSERT_TRUE(lock) << lock.error().message;
    EXPECT_FALSE(is_free());
    EXPECT_EQ(kept_.size(), 1U);
    lock->reset();
    EXPECT_EQ(given_up_, 1U) << "a device that failed can be unmounted";
    EXPECT_TRUE(is_free());
}

TEST_F(FolderLocksTest, AreHeldBetweenTwoDaemonsAndTakenByTheNext) {
    {
        FolderLocks first;  // it dies: nobody is told
        auto lock = first.lock(base_, 0ms);
        ASSERT_TRUE(lock);
        FolderLocks::Tell tell = supervisor();
        // What the supervisor has is of the same open file.
        FolderLocks other(tell);
        EXPECT_FALSE(other.lock(base_, 0ms));
    }
    ASSERT_TRUE(is_free());
    kept_[base_.native()] = std::move(*lock_folder(base_, 0ms));
    FolderLocks without;
    const auto refused = without.lock(base_, 0ms);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EBUSY);

    FolderLocks next(supervisor());
    std::map<std::string, FileDescriptor> handed;
    handed[base_.native()].reset(::dup(kept_[base_.native()].get()));
    next.hold(std::move(handed));
    const auto lock = next.lock(base_, 0ms);
    ASSERT_TRUE(lock) << lock.error().message;
    EXPECT_FALSE(is_free());
    next.give_up_the_rest();
    EXPECT_EQ(given_up_, 0U);
}

TEST_F(FolderLocksTest, OfAFolderThatIsAnotherOneByNowAreTakenAnew) {
    std::map<std::string, FileDescriptor> handed;
    handed[base_.native()] = std::move(*lock_folder(base_, 0ms));
    kept_[base_.native()].reset(::dup(handed[base_.native()].get()));
    fs::remove(base_ / "lock");
    FolderLocks locks(supervisor());
    locks.hold(std::move(handed));
    const auto lock = locks.lock(base_, 0ms);
    ASSERT_TRUE(lock);
    EXPECT_EQ(given_up_, 1U);
    EXPECT_EQ(kept_.size(), 1U);
    EXPECT_FALSE(is_free());
}

TEST_F(FolderLocksTest, ThatNobodyAsksForAreGivenUp) {
    std::map<std::string, FileDescriptor> handed;
    handed[base_.native()] = std::move(*lock_folder(base_, 0ms));
    kept_[base_.native()].reset(::dup(handed[base_.native()].get()));
    FolderLocks locks(supervisor());
    locks.hold(std::move(handed));
    locks.give_up_the_rest();
    EXPECT_EQ(given_up_, 1U);
    EXPECT_TRUE(is_free());
}

}  // namespace folder_locks_test
}  // namespace tierfs
