#include "bench/iobench/suites/samples.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tierfs::iobench {
namespace {

namespace fs = std::filesystem;

class Samples : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-samples-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        fs::create_directories(root_ + "/data/a");
        for (const auto* name : {"a/one", "a/two", "three", "four"})
            write("data/" + std::string(name), "12345");
        options_.path = root_ + "/data";
        options_.samples.list = root_ + "/list";
    }
    void TearDown() override { fs::remove_all(root_); }

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(root_ + "/" + name) << text;
    }

    /// What find_samples says of a list with this text.
    std::string refusal(const std::string& text) {
        write("list", text);
        const auto found = find_samples(options_);
        return found ? "" : found.error().message;
    }

    std::string root_;
    RunOptions options_;
};

TEST_F(Samples, AListNamesAllThatIsRead) {
    write("list", "three\n\na/two");
    const auto found = find_samples(options_);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->size(), 2U);
    EXPECT_EQ((*found)[0].path, root_ + "/data/a/two");
    EXPECT_EQ((*found)[0].size, 5U);
    EXPECT_EQ((*found)[1].path, root_ + "/data/three");
}

TEST_F(Samples, AListIsRefusedWithTheNameOfWhatIsWrong) {
    EXPECT_NE(refusal("three\nnone\n").find("/data/none: "), std::string::npos);
    EXPECT_NE(refusal("three\na\n").find("/data/a: is not a regular file"), std::string::npos);
    EXPECT_NE(refusal("three\nfour\nthree\n").find("names three twice"), std::string::npos);
    EXPECT_NE(refusal("../list\n").find("../list: is not below the directory"), std::string::npos);
    EXPECT_NE(refusal("a/../../list\n").find("is not below the directory"), std::string::npos);
    EXPECT_NE(refusal(root_ + "/list\n").find("is not below the directory"), std::string::npos);
    EXPECT_NE(refusal("\n\n"), "");
    options_.samples.list = root_ + "/no-list";
    const auto found = find_samples(options_);
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().message.find("/no-list"), std::string::npos);
    options_.samples.list = root_;  // a directory
    EXPECT_FALSE(find_samples(options_));
}

TEST_F(Samples, ALinkIsNotFollowed) {
    fs::create_symlink("three", root_ + "/data/link");
    EXPECT_NE(refusal("link\n").find("is not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace tierfs::iobench
