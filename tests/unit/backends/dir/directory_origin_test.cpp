#include "backends/dir/directory_origin.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>

namespace tierfs {
namespace directory_origin_test {

namespace fs = std::filesystem;

class DirectoryOriginTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "tierfs-dir-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        base_ = pattern;
        root_ = base_ / "source";
        fs::create_directory(root_);
        auto opened = open_directory_origin(settings_, root_.string());
        ASSERT_TRUE(opened) << opened.error().message;
        origin_ = std::move(*opened);
    }

    void TearDown() override {
        origin_.reset();
        fs::remove_all(base_);
    }

    void write(const std::string& path, const std::string& content) const {
        std::ofstream(root_ / path, std::ios::binary) << content;
    }

    Result<std::string> read(const std::string& path, const std::string& version, std::uint64_t offset,
                             std::size_t length) {
        std::string content(length, '\0');
        std::promise<Result<void>> answer;
        OriginRead request;
        request.path = path;
        request.version = version;
        request.offset = offset;
        request.destination = std::as_writable_bytes(std::span(content));
        request.done = [&answer](Result<void> result) { answer.set_value(std::move(result)); };
        origin_->read(std::move(request));
        auto result = answer.get_future().get();
        if (!result) return fail(result.error());
        return content;
    }

    Settings settings_;
    fs::path base_, root_;
    std::unique_ptr<Origin> origin_;
};

TEST_F(DirectoryOriginTest, ReadsWithoutAVersionTakeWhatIsThere) {
    write("a", "hello world");
    EXPECT_EQ(read("a", "", 6, 5).value_or("?"), "world");
    write("a", "other bytes");
    EXPECT_EQ(read("a", "", 6, 5).value_or("?"), "bytes");
    fs::create_directory(root_ / "d");
    EXPECT_EQ(read("d", "", 0, 1).error().code, ESTALE);
}

TEST_F(DirectoryOriginTest, StatAndReadAgreeWithTheFile) {
    write("a", "hello world");
    const auto attributes = origin_->stat("a");
    ASSERT_TRUE(attributes);
    EXPECT_EQ(attributes->size, 11U);
    EXPECT_EQ(attributes->kind, ObjectKind::file);
    const auto content = read("a", attributes->version, 6, 5);
    ASSERT_TRUE(content) << content.error().message;
    EXPECT_EQ(*content, "world");
    EXPECT_EQ(origin_->stats().get, 1U);
    EXPECT_EQ(origin_->stats().bytes_read, 5U);
}

TEST_F(DirectoryOriginTest, RootIsADirectory) {
    const auto attributes = origin_->stat("");
    ASSERT_TRUE(attributes);
    EXPECT_EQ(attributes->kind, ObjectKind::directory);
    EXPECT_TRUE(attributes->version.empty());
}

TEST_F(DirectoryOriginTest, AChangedFileIsStale) {
    write("a", "old bytes");
    const auto before = origin_->stat("a");
    ASSERT_TRUE(before);
    write("b", "new bytes");
    fs::rename(root_ / "b", root_ / "a");
    const auto content = read("a", before->version, 0, 9);
    ASSERT_FALSE(content);
    EXPECT_EQ(content.error().code, ESTALE);
}

TEST_F(DirectoryOriginTest, ReadingPastTheEndNeverInventsBytes) {
    write("a", "short");
    const auto attributes = origin_->stat("a");
    const auto content = read("a", attributes->version, 3, 10);
    ASSERT_FALSE(content);
    EXPECT_EQ(content.error().code, ESTALE);
}

TEST_F(DirectoryOriginTest, SymlinksAreShownAndNeverFollowed) {
    std::ofstream(base_ / "secret") << "outside";
    fs::create_symlink("../secret", root_ / "link");
    fs::create_directory_symlink("..", root_ / "up");
    const auto link = origin_->stat("link");
    ASSERT_TRUE(link);
    EXPECT_EQ(link->kind, ObjectKind::symlink);
    EXPECT_EQ(origin_->read_link("link").value(), "../secret");
    EXPECT_EQ(origin_->stat("up/secret").error().code, ENOENT);
    EXPECT_EQ(origin_->stat("../secret").error().code, ENOENT);
    EXPECT_FALSE(origin_->list("up", ""));
    EXPECT_FALSE(read("link", link->version, 0, 3));
}

TEST_F(DirectoryOriginTest, ReadLinkOfAFileIsInvalid) {
    write("a", "x");
    EXPECT_EQ(origin_->read_link("a").error().code, EINVAL);
}

TEST_F(DirectoryOriginTest, ListsInByteOrderOverPages) {
    std::set<std::string> expected;
    for (int i = 0; i < 9000; ++i) {
        const std::string name = "n" + std::to_string(i);
        write(name, "x");
        expected.insert(name);
    }
    std::vector<std::string> seen;
    std::string token;
    int pages = 0;
    do {
        const auto page = origin_->list("", token);
        ASSERT_TRUE(page);
        for (const auto& entry : page->entries) seen.push_back(entry.name);
        token = page->next;
        ASSERT_LT(++pages, 10);
    } while (!token.empty());
    EXPECT_EQ(pages, 3);
    EXPECT_TRUE(std::equal(seen.begin(), seen.end(), expected.begin(), expected.end()));
}

TEST_F(DirectoryOriginTest, APageAfterAnUnknownTokenGoesOnBehindThatName) {
    for (const char* name : {"a", "b", "c"}) write(name, "x");
    const auto page = origin_->list("", "bb");
    ASSERT_TRUE(page);
    ASSERT_EQ(page->entries.size(), 1U);
    EXPECT_EQ(page->entries[0].name, "c");
}

TEST_F(DirectoryOriginTest, SpecialFilesAreHiddenAndCounted) {
    ASSERT_EQ(::mkfifo((root_ / "pipe").c_str(), 0600), 0);
    write("file", "x");
    const auto page = origin_->list("", "");
    ASSERT_TRUE(page);
    ASSERT_EQ(page->entries.size(), 1U);
    EXPECT_EQ(page->hidden.at("socket, pipe or device"), 1U);
    EXPECT_EQ(origin_->stat("pipe").error().code, ENOENT);
    EXPECT_FALSE(read("pipe", "", 0, 1));
}

TEST_F(DirectoryOriginTest, ErrorsNameWhatIsWrong) {
    write("a", "x");
    EXPECT_EQ(origin_->stat("missing").error().code, ENOENT);
    EXPECT_EQ(origin_->list("a", "").error().code, ENOTDIR);
    EXPECT_EQ(origin_->stat("a/b").error().code, ENOTDIR);
    EXPECT_EQ(open_directory_origin(settings_, (base_ / "nothing").string()).error().code, ENOENT);
    EXPECT_EQ(open_directory_origin(settings_, (root_ / "a").string()).error().code, ENOTDIR);
}

TEST_F(DirectoryOriginTest, AfterStopReadsFailAtOnce) {
    write("a", "x");
    const auto attributes = origin_->stat("a");
    origin_->stop();
    EXPECT_EQ(read("a", attributes->version, 0, 1).error().code, ECANCELED);
    origin_->stop();
}

TEST_F(DirectoryOriginTest, IdentityIsTheRealPath) {
    fs::create_directory_symlink(root_, base_ / "alias");
    const auto alias = open_directory_origin(settings_, (base_ / "alias").string());
    ASSERT_TRUE(alias);
    EXPECT_EQ((*alias)->identity(), origin_->identity());
}

}  // namespace directory_origin_test
}  // namespace tierfs
