#include "fs/stage/copy/out_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "config/base/crc32c.hpp"

namespace tierfs::stage {
namespace out_file_test {

namespace fs = std::filesystem;

class OutSourceTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "tierfs-source-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        base_ = pattern;
        root_.reset(::open(base_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        write("f", content_);
    }
    void TearDown() override { fs::remove_all(base_); }

    void write(const std::string& path, const std::string& content) const {
        std::ofstream(base_ / path, std::ios::binary) << content;
    }
    static std::string text(AlignedBuffer& buffer, std::size_t size) {
        return {reinterpret_cast<const char*>(buffer.data()), size};
    }

    fs::path base_;
    FileDescriptor root_;
    const std::string content_ = std::string(8192, 'a') + std::string(1234, 'b');
};

TEST_F(OutSourceTest, ReadsAlignedPartsAndTheOddRest) {
    const auto source = OutSource::open(root_.get(), "f");
    ASSERT_TRUE(source) << source.error().message;
    AlignedBuffer buffer(8192);
    ASSERT_TRUE(source->read(buffer, 0, 8192));
    EXPECT_EQ(text(buffer, 8192), std::string(8192, 'a'));
    ASSERT_TRUE(source->read(buffer, 8192, 1234));
    EXPECT_EQ(text(buffer, 1234), std::string(1234, 'b'));
    EXPECT_EQ(source->attributes().size, content_.size());
    EXPECT_TRUE(source->expect_unchanged(root_.get()));
}

TEST_F(OutSourceTest, NoticesWhatHappensToTheFile) {
    const auto changes = std::vector<std::function<void()>>{
        [&] { std::ofstream(base_ / "f", std::ios::app) << "more"; },
        [&] { std::ofstream(base_ / "f", std::ios::in | std::ios::binary) << "other"; },
        [&] { fs::resize_file(base_ / "f", 10); },
        [&] { fs::remove(base_ / "f"); },
        [&] {
            write("g", content_);
            fs::rename(base_ / "g", base_ / "f");
        },
    };
    for (std::size_t i = 0; i < changes.size(); ++i) {
        write("f", content_);
        const auto source = OutSource::open(root_.get(), "f");
        ASSERT_TRUE(source);
        // Timestamps may be those of the last tick of the kernel's clock.
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        changes[i]();
        const auto same = source->expect_unchanged(root_.get());
        ASSERT_FALSE(same) << i;
        EXPECT_EQ(same.error().code, ESTALE) << i;
    }
}

TEST_F(OutSourceTest, AFileThatBecameShorterIsStale) {
    const auto source = OutSource::open(root_.get(), "f");
    fs::resize_file(base_ / "f", 4096);
    AlignedBuffer buffer(8192);
    EXPECT_EQ(source->read(buffer, 0, 8192).error().code, ESTALE);
}

TEST_F(OutSourceTest, OnlyFilesBelowTheRootAreOpened) {
    fs::create_symlink("f", base_ / "link");
    fs::create_directory(base_ / "folder");
    for (const auto* path : {"link", "folder", "absent", "../f"})
        EXPECT_FALSE(OutSource::open(root_.get(), path)) << path;
}

TEST(OutSums, PartsMayComeInAnyOrder) {
    std::string content(2 * kChunkBytes + 100, '.');
    for (std::size_t i = 0; i < content.size(); i += 999) content[i] = static_cast<char>(i % 251);
    const auto bytes = std::as_bytes(std::span(content));
    OutSums sums;
    std::vector<std::thread> threads;
    for (unsigned number = 3; number-- > 0;) {
        threads.emplace_back([&, number] {
            const auto offset = number * kChunkBytes;
            EXPECT_TRUE(sums.add(
                number, bytes.subspan(offset, std::min<std::size_t>(kChunkBytes, bytes.size() - offset))));
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(sums.xxh3(), XXH3_64bits(content.data(), content.size()));
    const auto crcs = sums.crc32c();
    ASSERT_EQ(crcs.size(), 3U);
    EXPECT_EQ(crcs[1], crc32c(0, bytes.subspan(kChunkBytes, kChunkBytes)));
    EXPECT_EQ(crcs[2], crc32c(0, bytes.subspan(2 * kChunkBytes)));
}

TEST(OutSums, GivingUpWakesWhoWaits) {
    OutSums sums;
    const std::string text = "later";
    std::thread waiter([&] { EXPECT_FALSE(sums.add(1, std::as_bytes(std::span(text)))); });
    sums.give_up();
    waiter.join();
}

}  // namespace out_file_test
}  // namespace tierfs::stage
