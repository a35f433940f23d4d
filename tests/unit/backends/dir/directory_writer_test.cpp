#include "backends/dir/directory_writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "config/base/aligned_buffer.hpp"

namespace tierfs {
namespace directory_writer_test {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

class DirectoryWriterTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "tierfs-writer-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        writer_ = std::make_unique<DirectoryWriter>(
            FileDescriptor(::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), root_.string());
    }
    void TearDown() override { fs::remove_all(root_); }

    [[nodiscard]] std::string content(const std::string& path) const {
        std::ifstream file(root_ / path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    [[nodiscard]] std::size_t temporaries() const {
        std::size_t count = 0;
        for (const auto& entry : fs::recursive_directory_iterator(root_))
            count += entry.path().filename().string().starts_with(".tierfs-upload-") ? 1U : 0U;
        return count;
    }

    fs::path root_;
    std::unique_ptr<DirectoryWriter> writer_;
};

TEST_F(DirectoryWriterTest, PutsAFileWithItsAttributesIntoNewDirectories) {
    PutOptions options;
    options.attributes = FileAttributes{0640, ::getuid(), ::getgid(), 1'700'000'000'123'456'789};
    const auto written = writer_->put("a/b/c", bytes_of("hello"), options, "");
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(content("a/b/c"), "hello");
    EXPECT_EQ(written->checksum, *md5_hex(bytes_of("hello")));
    EXPECT_EQ(written->version, writer_->stat_file("a/b/c")->version);
    struct stat status {};
    ASSERT_EQ(::stat((root_ / "a/b/c").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0640U);
    EXPECT_EQ(status.st_mtim.tv_sec, 1'700'000'000);
    EXPECT_EQ(status.st_mtim.tv_nsec, 123'456'789);
    EXPECT_EQ(temporaries(), 0U);
    ASSERT_TRUE(writer_->put("a/b/c", bytes_of("other"), {}, ""));
    EXPECT_EQ(content("a/b/c"), "other");
    EXPECT_EQ(writer_->stats().put, 2U);
    EXPECT_EQ(writer_->stats().bytes_written, 10U);
}

TEST_F(DirectoryWriterTest, PutsAnEmptyFile) {
    ASSERT_TRUE(writer_->put("empty", {}, {}, ""));
    EXPECT_EQ(writer_->stat_file("empty")->size, 0U);
    EXPECT_EQ(*writer_->checksum("empty", 0), *md5_hex({}));
}

TEST_F(DirectoryWriterTest, NothingIsSeenBeforeTheEndAndAnotherWriterGoesOn) {
    constexpr std::uint64_t kPart = 8192;
    AlignedBuffer first(kPart);
    std::fill(first.span().begin(), first.span().end(), std::byte{'a'});
    const auto upload = writer_->begin("f", {});
    ASSERT_TRUE(upload);
    ASSERT_TRUE(writer_->part(*upload, 3, 2 * kPart, bytes_of("end"), ""));
    EXPECT_FALSE(fs::exists(root_ / "f"));
    DirectoryWriter other(FileDescriptor(::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), "x");
    const auto pending = other.pending("f");
    ASSERT_TRUE(pending);
    ASSERT_EQ(pending->size(), 1U);
    EXPECT_EQ(pending->front().upload, *upload);
    EXPECT_TRUE(other.pending("g")->empty());
    ASSERT_TRUE(other.part(*upload, 1, 0, first.span(), ""));
    const auto found = other.parts(*upload, kPart);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->size(), 2U) << "the hole is no part";
    EXPECT_EQ(found->at(0).number, 1U);
    EXPECT_EQ(found->at(0).checksum, *md5_hex(first.span()));
    EXPECT_EQ(found->at(1).number, 3U);
    ASSERT_TRUE(other.part(*upload, 2, kPart, first.span(), ""));
    const auto all = other.parts(*upload, kPart);
    const auto written = other.complete(*upload, *all, {});
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(content("f"), std::string(2 * kPart, 'a') + "end");
    EXPECT_EQ(written->checksum, *checksum_of_parts(*all));
    EXPECT_EQ(*writer_->checksum("f", kPart), written->checksum);
    EXPECT_EQ(temporaries(), 0U);
}

TEST_F(DirectoryWriterTest, ConditionsAreKept) {
    ASSERT_TRUE(writer_->put("f", bytes_of("old"), {}, ""));
    PutOptions exclusive, pinned;
    exclusive.only_if_absent = true;
    EXPECT_EQ(writer_->put("f", bytes_of("new"), exclusive, "").error().code, EEXIST);
    const auto upload = writer_->begin("g", exclusive);
    const auto part = writer_->part(*upload, 1, 0, bytes_of("new"), "");
    ASSERT_TRUE(writer_->put("g", bytes_of("first"), {}, ""));
    EXPECT_EQ(writer_->complete(*upload, std::span(&*part, 1), exclusive).error().code, EEXIST);
    EXPECT_EQ(content("g"), "first");
    pinned.only_if_version = "other";
    EXPECT_EQ(writer_->put("f", bytes_of("new"), pinned, "").error().code, ESTALE);
    pinned.only_if_version = writer_->stat_file("f")->version;
    EXPECT_TRUE(writer_->put("f", bytes_of("new"), pinned, ""));
    EXPECT_EQ(content("f"), "new");
}

TEST_F(DirectoryWriterTest, AbortRemovesAndIsRepeatable) {
    const auto upload = writer_->begin("d/f", {});
    ASSERT_TRUE(upload);
    EXPECT_EQ(temporaries(), 1U);
    EXPECT_TRUE(writer_->abort(*upload));
    EXPECT_TRUE(writer_->abort(*upload));
    EXPECT_EQ(temporaries(), 0U);
    EXPECT_EQ(writer_->part(*upload, 1, 0, bytes_of("x"), "").error().code, ENOENT);
}

TEST_F(DirectoryWriterTest, AnIdThatLeadsElsewhereIsNoUpload) {
    ASSERT_TRUE(writer_->put("victim", bytes_of("precious"), {}, ""));
    for (const auto* id : {"victim", "../victim", "", ".tierfs-upload-x", "/etc/passwd"}) {
        const Upload upload{"f", id};
        EXPECT_EQ(writer_->part(upload, 1, 0, bytes_of("x"), "").error().code, ENOENT) << id;
        EXPECT_TRUE(writer_->abort(upload)) << id;
        EXPECT_FALSE(writer_->complete(upload, {}, {})) << id;
    }
    EXPECT_EQ(content("victim"), "precious");
}

TEST_F(DirectoryWriterTest, SymbolicLinksLeadNowhere) {
    const auto outside = fs::temp_directory_path() / (root_.filename().string() + "-outside");
    fs::create_directory(outside);
    fs::create_symlink(outside, root_ / "link");
    EXPECT_FALSE(writer_->put("link/f", bytes_of("x"), {}, ""));
    EXPECT_TRUE(fs::is_empty(outside));
    fs::remove_all(outside);
}

TEST_F(DirectoryWriterTest, ATemporaryFileOfAnotherSizeIsNotCompleted) {
    const auto upload = writer_->begin("f", {});
    const auto part = writer_->part(*upload, 1, 0, bytes_of("hello"), "");
    ASSERT_TRUE(part);
    UploadPart wrong = *part;
    wrong.size = 4;
    EXPECT_EQ(writer_->complete(*upload, std::span(&wrong, 1), {}).error().code, EIO);
    EXPECT_FALSE(fs::exists(root_ / "f"));
}

TEST_F(DirectoryWriterTest, RemovesAndLooks) {
    ASSERT_TRUE(writer_->put("d/f", bytes_of("x"), {}, ""));
    EXPECT_TRUE(writer_->remove("d/f"));
    EXPECT_TRUE(writer_->remove("d/f"));
    EXPECT_TRUE(writer_->remove("none/f"));
    EXPECT_EQ(writer_->stat_file("d/f").error().code, ENOENT);
    EXPECT_EQ(writer_->stat_file("d").error().code, EISDIR);
}

}  // namespace directory_writer_test
}  // namespace tierfs
