// A FUSE mount that nobody serves, and how those who wait for it are let go. Needs to be allowed to mount.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <future>

#include "fs/daemon/unmount.hpp"

namespace tierfs {
namespace abort_connection_test {

class AbortConnection : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = "/tmp/tierfs-abort-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        settings_.mountpoint = pattern;
        settings_.source = "/nowhere";
        if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0)
            GTEST_SKIP() << "needs root and FUSE";
        auto mounted = mount_fuse(settings_);
        ASSERT_TRUE(mounted) << mounted.error().message;
        mount_ = std::move(*mounted);
    }
    void TearDown() override {
        mount_.device.reset();
        if (!mount_.number.empty()) {
            EXPECT_TRUE(unmount_fuse(settings_.mountpoint, mount_.number, true));
        }
        std::filesystem::remove(settings_.mountpoint);
    }

    Settings settings_;
    FuseMount mount_;
};

TEST_F(AbortConnection, LetsWaitersGo) {
    auto waiter = std::async(std::launch::async, [path = settings_.mountpoint] {
        struct stat root {};
        return ::stat(path.c_str(), &root) == 0 ? 0 : errno;
    });
    const auto aborted = abort_connection(mount_);
    const bool ended = waiter.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
    if (!ended) mount_.device.reset();  // so that the waiter ends at any rate
    EXPECT_TRUE(ended) << "the waiter was not let go";
    EXPECT_TRUE(aborted) << aborted.error().message;
    EXPECT_NE(waiter.get(), 0);
}

TEST_F(AbortConnection, LeavesAloneWhoseNumberItIsNow) {
    const std::string number = mount_.number;
    ASSERT_TRUE(unmount_fuse(settings_.mountpoint, number, false));
    auto next = mount_fuse(settings_);
    ASSERT_TRUE(next) << next.error().message;
    // Of the mount that has ended, with the number of the one that lives.
    EXPECT_TRUE(abort_connection({std::move(mount_.device), next->number}));
    mount_ = std::move(*next);
    pollfd wanted{mount_.device.get(), POLLIN, 0};
    ::poll(&wanted, 1, 0);
    EXPECT_EQ(wanted.revents & POLLERR, 0);
}

}  // namespace abort_connection_test
}  // namespace tierfs
