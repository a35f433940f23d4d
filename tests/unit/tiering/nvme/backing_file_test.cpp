#include "tiering/nvme/backing_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace tierfs {
namespace backing_file_test {

namespace fs = std::filesystem;

class BackingFiles : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = (fs::temp_directory_path() / "tierfs-backing-XXXXXX").string();
        ASSERT_NE(::mkdtemp(path.data()), nullptr);
        folder_ = path;
    }
    void TearDown() override { fs::remove_all(folder_); }

    static void put(const BackingFile& file, std::uint64_t block) {
        const AlignedBuffer bytes(kBlockSize);
        const std::span<const std::byte> piece = bytes.span();
        ASSERT_TRUE(file.write(block * kBlockSize, std::span(&piece, 1)));
    }
    fs::path folder_;
};

/// Its sidecar has four gigabytes, of which a few pages are there: the rest is not read (a test of that would be one of time).
TEST_F(BackingFiles, CountsWhatIsPresentOfAVeryLargeFile) {
    constexpr std::uint64_t kSize = std::uint64_t{4} << 40U;
    const auto file = BackingFile::create(folder_, ContentId{1, 2}, kSize);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->count_present().value(), 0U);
    const std::uint64_t last = kSize / kBlockSize - 1;
    for (const std::uint64_t block :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{5000}, last / 3, last / 3 + 1, last})
        put(*file, block);
    EXPECT_EQ(file->count_present().value(), 6U);
    ASSERT_TRUE(file->clear(1, 1));
    EXPECT_EQ(file->count_present().value(), 5U);
    const auto again = BackingFile::open(folder_, ContentId{1, 2});
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->count_present().value(), 5U);
    EXPECT_TRUE(again->present(last).value());
    EXPECT_FALSE(again->present(1).value());
}

}  // namespace backing_file_test
}  // namespace tierfs
