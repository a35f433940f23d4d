#include "backends/disk/disk_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

namespace tierfs {
namespace disk_file_test {

class DiskFileTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "tierfs-disk-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }
    std::filesystem::path directory_;
};

TEST_F(DiskFileTest, WritesAndReadsBack) {
    auto file = DiskFile::open(directory_ / "f", {.write = true, .create = true});
    ASSERT_TRUE(file.has_value()) << file.error().message;
    AlignedBuffer data(3 * kDiskAlignment);
    std::fill(data.span().begin(), data.span().end(), std::byte{7});
    ASSERT_TRUE(file->write(data.span(), kDiskAlignment).has_value());
    EXPECT_TRUE(file->sync_data().has_value());
    AlignedBuffer back(8 * kDiskAlignment);
    EXPECT_EQ(file->read(back.span(), 0).value(), 4 * kDiskAlignment);
    EXPECT_EQ(back.span()[0], std::byte{0});
    EXPECT_EQ(back.span()[kDiskAlignment], std::byte{7});
    EXPECT_EQ(file->sizes()->size, 4 * kDiskAlignment);
}

TEST_F(DiskFileTest, AnOddEndIsReadAsFarAsItGoes) {
    auto file = DiskFile::open(directory_ / "f", {.write = true, .create = true});
    ASSERT_TRUE(file.has_value());
    AlignedBuffer data(2 * kDiskAlignment);
    std::fill(data.span().begin(), data.span().end(), std::byte{9});
    ASSERT_TRUE(file->write(data.span(), 0).has_value());
    ASSERT_TRUE(file->truncate(5001).has_value());
    AlignedBuffer back(4 * kDiskAlignment);
    EXPECT_EQ(file->read(back.span(), 0).value(), 5001U);
    EXPECT_EQ(file->read(back.span(), 1 << 20).value(), 0U);
}

TEST_F(DiskFileTest, UnalignedCallsGoOnBuffered) {
    auto file = DiskFile::open(directory_ / "f", {.write = true, .create = true});
    ASSERT_TRUE(file.has_value());
    std::vector<std::byte> data(1001, std::byte{3});
    ASSERT_TRUE(file->write(std::span(data).subspan(1), 77).has_value());
    std::vector<std::byte> back(1000);
    EXPECT_EQ(file->read(back, 77).value(), 1000U);
    EXPECT_TRUE(std::equal(back.begin(), back.end(), data.begin() + 1));
}

TEST_F(DiskFileTest, PreallocatedSpaceCountsAndComesBack) {
    auto file = DiskFile::open(directory_ / "f", {.write = true, .create = true});
    ASSERT_TRUE(file.has_value());
    const auto reserved = file->preallocate(1 << 20);
    if (!reserved && reserved.error().code == EOPNOTSUPP) GTEST_SKIP() << "no fallocate on this file system";
    ASSERT_TRUE(reserved.has_value());
    EXPECT_GE(file->sizes()->allocated, 1U << 20);
    ASSERT_TRUE(file->punch_hole(0, 1 << 19).has_value());
    EXPECT_LT(file->sizes()->allocated, 1U << 20);
    EXPECT_EQ(file->sizes()->size, 1U << 20);
    ASSERT_TRUE(file->truncate(0).has_value());
    EXPECT_EQ(file->sizes()->allocated, 0U);
}

TEST_F(DiskFileTest, ErrorsNameTheFile) {
    const auto absent = DiskFile::open(directory_ / "absent", {});
    ASSERT_FALSE(absent.has_value());
    EXPECT_EQ(absent.error().code, ENOENT);
    EXPECT_NE(absent.error().message.find("absent"), std::string::npos);
    std::filesystem::create_symlink("/etc/passwd", directory_ / "link");
    EXPECT_EQ(DiskFile::open(directory_ / "link", {}).error().code, ELOOP);
    auto file = DiskFile::open(directory_ / "f", {.write = true, .create = true});
    ASSERT_TRUE(file.has_value());
    auto reader = DiskFile::open(directory_ / "f", {});
    ASSERT_TRUE(reader.has_value());
    AlignedBuffer data(kDiskAlignment);
    EXPECT_EQ(reader->write(data.span(), 0).error().code, EBADF);
}

TEST(FileDescriptorTest, ClosesOnceAndMoves) {
    const int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(number, 0);
    {
        FileDescriptor one(number);
        FileDescriptor two(std::move(one));
        EXPECT_EQ(two.get(), number);
        FileDescriptor three;
        EXPECT_FALSE(three.valid());
        three = std::move(two);
        EXPECT_TRUE(static_cast<bool>(three));
        EXPECT_NE(::fcntl(number, F_GETFD), -1);
    }
    EXPECT_EQ(::fcntl(number, F_GETFD), -1);
    FileDescriptor kept(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int given = kept.release();
    kept.reset();
    EXPECT_NE(::fcntl(given, F_GETFD), -1);
    ::close(given);
}

}  // namespace disk_file_test
}  // namespace tierfs
