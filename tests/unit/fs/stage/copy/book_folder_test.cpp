#include "fs/stage/copy/book_folder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/stage/copy/held_folder.hpp"
#include "tests/unit/fs/stage/copy/temporary_folder.hpp"

namespace tierfs::stage {
namespace book_folder_test {

namespace fs = std::filesystem;

int code_of(const BookFolder& books, const std::string& name, int flags) {
    const auto book = books.book(name, flags);
    return book ? 0 : book.error().code;
}

TEST(BookFolder, ABookIsARegularFileWithOneName) {
    const TemporaryFolder folder;
    folder.write("elsewhere/secret", "secret");
    fs::create_directory(folder.path() / "books");
    const auto books = BookFolder::at(folder / "books");
    ASSERT_TRUE(books) << books.error().message;
    ASSERT_EQ(::mkfifo((folder / "books/fifo").c_str(), 0600), 0);
    fs::create_symlink("../elsewhere/secret", folder / "books/link");
    fs::create_symlink("../elsewhere/new", folder / "books/dangling");
    fs::create_hard_link(folder / "elsewhere/secret", folder / "books/other");
    fs::create_directory(folder / "books/folder");
    for (const int flags : {O_RDONLY, O_WRONLY | O_CREAT | O_TRUNC, O_RDWR | O_APPEND}) {
        EXPECT_EQ(code_of(*books, "fifo", flags), EINVAL) << flags;  // and does not wait
        EXPECT_EQ(code_of(*books, "link", flags), ELOOP) << flags;
        EXPECT_EQ(code_of(*books, "dangling", flags), ELOOP) << flags;
        EXPECT_EQ(code_of(*books, "folder", flags), EISDIR) << flags;
    }
    EXPECT_EQ(code_of(*books, "other", O_WRONLY | O_TRUNC), EMLINK);
    EXPECT_EQ(folder.read("elsewhere/secret"), "secret");
    EXPECT_FALSE(fs::exists(folder / "elsewhere/new"));
    EXPECT_EQ(code_of(*books, "new", O_WRONLY | O_CREAT | O_TRUNC), 0);
    EXPECT_TRUE(books->make("whole", "text"));
    EXPECT_EQ(books->make("whole", "other").error().code, EEXIST);
    EXPECT_EQ(folder.read("books/whole"), "text");
}

TEST(BookFolder, ALinkIsNoFolder) {
    const TemporaryFolder folder;
    fs::create_directory(folder.path() / "elsewhere");
    fs::create_directory_symlink("elsewhere", folder / "books");
    const auto held = HeldFolder::open(folder.path());
    for (const mode_t make : {0, 0755})
        EXPECT_EQ(BookFolder::open(held->fd.get(), held->path, "books", make).error().code, ENOTDIR);
    EXPECT_TRUE(BookFolder::at(folder / "books")) << "who names a link means what it leads to";
    EXPECT_EQ(BookFolder::at(folder / "absent").error().code, ENOENT);
    EXPECT_TRUE(BookFolder::at(folder / "absent/", 0700));
}

TEST(BookFolder, ItIsTheSameFolderWhateverItsNameLeadsTo) {
    const TemporaryFolder folder;
    fs::create_directory(folder.path() / "books");
    fs::create_directory(folder.path() / "elsewhere");
    const auto books = BookFolder::at(folder / "books");
    fs::rename(folder / "books", folder / "moved");
    fs::create_directory_symlink("elsewhere", folder / "books");
    EXPECT_EQ(code_of(*books, "new", O_WRONLY | O_CREAT), 0);
    EXPECT_TRUE(fs::exists(folder / "moved/new"));
}

TEST(BookFolder, AllIsRemovedAndNoLinkFollowed) {
    const TemporaryFolder folder;
    folder.write("elsewhere/kept", "kept");
    folder.write("gone/a/b", "b");
    fs::create_directory_symlink("../elsewhere", folder / "gone/link");
    const auto held = HeldFolder::open(folder.path());
    ASSERT_TRUE(held) << held.error().message;
    ASSERT_TRUE(remove_all_of(held->fd.get(), "gone"));
    EXPECT_TRUE(remove_all_of(held->fd.get(), "gone")) << "nothing is there any more";
    EXPECT_FALSE(fs::exists(folder / "gone"));
    EXPECT_EQ(folder.read("elsewhere/kept"), "kept");
}

TEST(HeldFolder, FollowsLinksAndSaysWhereTheyLed) {
    const TemporaryFolder folder;
    fs::create_directories(folder.path() / "real/below");
    fs::create_directory_symlink("real", folder / "relative");
    fs::create_directory_symlink(folder / "relative", folder / "absolute");
    fs::create_directory_symlink("loop", folder / "loop");
    folder.write("file", "");
    const auto real = fs::canonical(folder.path()).string();
    for (const std::string path :
         {"real/below", "relative/below", "absolute/below/", "real/../absolute/./below"}) {
        const auto held = HeldFolder::open(folder / path);
        ASSERT_TRUE(held) << held.error().message;
        EXPECT_EQ(held->path, real + "/real/below") << path;
    }
    EXPECT_EQ(HeldFolder::open(folder / "absent").error().code, ENOENT);
    EXPECT_EQ(HeldFolder::open(folder / "loop").error().code, ELOOP);
    EXPECT_EQ(HeldFolder::open(folder / "file").error().code, ENOTDIR);
    EXPECT_EQ(HeldFolder::open("").error().code, ENOENT);
    EXPECT_TRUE(HeldFolder::open(folder / "relative/made/deep", true));
    EXPECT_TRUE(fs::exists(folder / "real/made/deep"));
}

TEST(HeldFolder, RootFollowsNoLinkOfAUserToWhatIsNotHis) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    constexpr uid_t kUser = 12345;
    const TemporaryFolder folder;
    for (const char* name : {"roots", "users", "mine"}) fs::create_directory(folder.path() / name);
    ASSERT_EQ(::chown((folder / "users").c_str(), kUser, kUser), 0);
    ASSERT_EQ(::chown((folder / "mine").c_str(), kUser, kUser), 0);
    const auto link = [&](const std::string& target, const std::string& name) {
        fs::create_directory_symlink(target, folder / ("users/" + name));
        ASSERT_EQ(::lchown((folder / ("users/" + name)).c_str(), kUser, kUser), 0);
    };
    link("../roots", "to_root");
    link("../mine", "to_mine");
    link("to_root", "twice");
    fs::create_directory_symlink("../roots", folder / "users/by_root");
    EXPECT_EQ(HeldFolder::open(folder / "users/to_root").error().code, EACCES);
    EXPECT_EQ(HeldFolder::open(folder / "users/twice").error().code, EACCES);
    EXPECT_EQ(HeldFolder::open(folder / "users/to_root/../roots").error().code, EACCES);
    link("../roots/made", "dangling");
    EXPECT_EQ(HeldFolder::open(folder / "users/dangling", true).error().code, ENOENT);
    EXPECT_EQ(HeldFolder::open(folder / "users/dangling/below", true).error().code, ENOENT);
    EXPECT_FALSE(fs::exists(folder / "roots/made")) << "nothing is made where the link leads";
    EXPECT_TRUE(HeldFolder::open(folder / "users/to_mine"));
    EXPECT_TRUE(HeldFolder::open(folder / "users/by_root"));
}

}  // namespace book_folder_test
}  // namespace tierfs::stage
