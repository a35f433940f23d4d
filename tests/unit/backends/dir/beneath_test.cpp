#include "backends/dir/beneath.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace tierfs {
namespace beneath_test {

namespace fs = std::filesystem;

class OpenBeneath : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "tierfs-beneath-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        base_ = pattern;
        root_.reset(::open(pattern.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        std::ofstream(base_ / "a") << "x";
        // The kernel tells the holder of a lease by SIGIO that another wants the file.
        before_ = std::signal(SIGIO, SIG_IGN);
    }
    void TearDown() override {
        std::signal(SIGIO, before_);
        fs::remove_all(base_);
    }

    /// The file "a" with a lease on it; none where the file system has none.
    [[nodiscard]] FileDescriptor leased() const {
        FileDescriptor file(::open((base_ / "a").c_str(), O_RDWR | O_CLOEXEC));
        if (::fcntl(file.get(), F_SETLEASE, F_WRLCK) != 0) file.reset();
        return file;
    }

    fs::path base_;
    FileDescriptor root_;
    void (*before_)(int) = SIG_DFL;
};

TEST_F(OpenBeneath, ALeaseIsNotWaitedForWithoutEnd) {
    const auto file = leased();
    if (!file) GTEST_SKIP() << "no lease on a file here: " << std::strerror(errno);
    const auto opened = open_beneath(root_.get(), "a", O_RDONLY | O_NONBLOCK, std::chrono::milliseconds(30));
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ETIMEDOUT);
}

TEST_F(OpenBeneath, ALeaseThatIsGivenBackIsWaitedFor) {
    const auto file = leased();
    if (!file) GTEST_SKIP() << "no lease on a file here: " << std::strerror(errno);
    std::thread holder([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_EQ(::fcntl(file.get(), F_SETLEASE, F_UNLCK), 0);
    });
    const auto opened = open_beneath(root_.get(), "a", O_RDONLY | O_NONBLOCK, std::chrono::seconds(30));
    holder.join();
    EXPECT_TRUE(opened) << opened.error().message;
}

}  // namespace beneath_test
}  // namespace tierfs
