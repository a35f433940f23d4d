#include "bench/iobench/suites/sample_list.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tierfs::iobench {
namespace sample_list_test {

namespace fs = std::filesystem;

class SampleList : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-samples-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        fs::create_directories(root_ + "/data/a");
        for (const auto* name : {"a/one", "a/two", "three", "four"})
            write("data/" + std::string(name), "12345");
        directory_ = root_ + "/data";
        list_ = root_ + "/list";
    }
    void TearDown() override { fs::remove_all(root_); }

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(root_ + "/" + name) << text;
    }

    /// What listed_files says of a list with this text.
    std::string refusal(const std::string& text) {
        write("list", text);
        const auto found = listed_files(list_, directory_);
        return found ? "" : found.error().message;
    }

    std::string root_;
    std::string directory_, list_;
};

TEST_F(SampleList, AListNamesAllThatIsRead) {
    write("list", "three\n\na/two");
    const auto found = listed_files(list_, directory_);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->size(), 2U);
    EXPECT_EQ((*found)[0].path, "a/two");
    EXPECT_EQ((*found)[0].size, 5U);
    EXPECT_EQ((*found)[1].path, "three");
}

TEST_F(SampleList, AFileWhoseSizeTheListGivesIsNotLookedAt) {
    write("list", "three\t5\nabsent\t17\n");
    const auto found = listed_files(list_, directory_);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->size(), 2U);
    EXPECT_EQ((*found)[0].size, 17U);
    EXPECT_EQ((*found)[1].size, 5U);
}

TEST_F(SampleList, AListIsRefusedWithTheNameOfWhatIsWrong) {
    EXPECT_NE(refusal("three\nnone\n").find("/data/none: "), std::string::npos);
    EXPECT_NE(refusal("three\na\n").find("/data/a: is not a regular file"), std::string::npos);
    EXPECT_NE(refusal("three\nfour\nthree\n").find("names three twice"), std::string::npos);
    EXPECT_NE(refusal("../list\n").find("../list: is not below the directory"), std::string::npos);
    EXPECT_NE(refusal("a/../../list\n").find("is not below the directory"), std::string::npos);
    EXPECT_NE(refusal(root_ + "/list\n").find("is not below the directory"), std::string::npos);
    for (const auto* size : {"", "x", "5x", "-5", "99999999999999999999"})
        EXPECT_NE(refusal("three\t" + std::string(size) + "\n").find("three: has no size"), std::string::npos)
            << size;
    EXPECT_NE(refusal("\t5\n").find("is not below the directory"), std::string::npos);
    EXPECT_EQ(refusal("\n\n"), "");
    list_ = root_ + "/no-list";
    const auto found = listed_files(list_, directory_);
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().message.find("/no-list"), std::string::npos);
    list_ = root_;  // a directory
    EXPECT_FALSE(listed_files(list_, directory_));
}

TEST_F(SampleList, ALinkIsNotFollowed) {
    fs::create_symlink("three", root_ + "/data/link");
    EXPECT_NE(refusal("link\n").find("is not a regular file"), std::string::npos);
}

}  // namespace sample_list_test
}  // namespace tierfs::iobench
