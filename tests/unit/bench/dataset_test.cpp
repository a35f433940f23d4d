#include "bench/iobench/data/dataset.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/iobench/data/files.hpp"

namespace tierfs::iobench {
namespace dataset_test {

namespace fs = std::filesystem;

class Dataset : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-test-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        plan_.directory = root_ + "/data";
        plan_.kind = Kind::npz;
        plan_.files = 25;
        plan_.size = 2000;
        plan_.directories = 4;
        plan_.large = {{"models/big.bin", 9'000'001}};
    }
    void TearDown() override { fs::remove_all(root_); }

    std::string root_;
    DatasetPlan plan_;
};

void spoil(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(700);
    const auto byte = static_cast<char>(file.peek() ^ 1);
    file.seekp(700);
    file.put(byte);
}

TEST_F(Dataset, LaysFilesOutInClassDirectories) {
    const auto made = make_dataset(plan_);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->written, 26U);
    EXPECT_EQ(made->bytes, 25 * 2000U + 9'000'001U);
    const auto found = walk(plan_.directory);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->size(), 26U);
    EXPECT_EQ(found->front().path, "class_000/00000001.npz");
    EXPECT_EQ(found->at(24).path, "class_003/00000025.npz");
    EXPECT_EQ(found->back().path, "models/big.bin");
    EXPECT_EQ(found->back().size, 9'000'001U);
}

TEST_F(Dataset, IsTheSameForAnyNumberOfThreads) {
    plan_.threads = 1;
    const auto one = make_dataset(plan_);
    plan_.directory = root_ + "/other";
    plan_.threads = 5;
    const auto five = make_dataset(plan_);
    ASSERT_TRUE(one && five);
    EXPECT_EQ(one->manifest, five->manifest);
}

TEST_F(Dataset, SecondRunKeepsWhatIsRightAndRepairsTheRest) {
    const auto first = make_dataset(plan_);
    ASSERT_TRUE(first);
    spoil(plan_.directory + "/class_001/00000010.npz");
    spoil(plan_.directory + "/models/big.bin");
    fs::remove(plan_.directory + "/class_000/00000001.npz");
    fs::resize_file(plan_.directory + "/class_000/00000002.npz", 2001);
    const auto second = make_dataset(plan_);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->written, 4U);
    EXPECT_EQ(second->kept, 22U);
    EXPECT_EQ(second->manifest, first->manifest);
    const auto wrong = verify(plan_.directory, second->manifest, [](std::uint64_t) {});
    ASSERT_TRUE(wrong);
    EXPECT_TRUE(wrong->empty());
}

TEST_F(Dataset, RefusesLargeNamesOutsideTheDirectory) {
    for (const std::string name : {"../x", "/etc/x", "", "a/../../x", "a\tb", "dir/"}) {
        plan_.large = {{name, 10}};
        const auto made = make_dataset(plan_);
        ASSERT_FALSE(made) << name;
        EXPECT_EQ(made.error().code, EINVAL);
    }
}

TEST_F(Dataset, NamesTheDirectoryThatCannotBeMade) {
    std::ofstream(root_ + "/file") << "x";
    plan_.directory = root_ + "/file/data";
    const auto made = make_dataset(plan_);
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message.find(root_ + "/file"), std::string::npos);
}

TEST_F(Dataset, ManifestSurvivesWritingAndReading) {
    const auto made = make_dataset(plan_);
    ASSERT_TRUE(made);
    const std::string path = root_ + "/manifest";
    ASSERT_TRUE(write_manifest(path, made->manifest));
    const auto read = read_manifest(path);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, made->manifest);
    EXPECT_FALSE(fs::exists(root_ + "/.manifest.iobench-tmp"));
}

TEST_F(Dataset, VerifyNamesEveryKindOfDifference) {
    const auto made = make_dataset(plan_);
    ASSERT_TRUE(made);
    spoil(plan_.directory + "/class_000/00000003.npz");
    fs::resize_file(plan_.directory + "/class_000/00000004.npz", 10);
    fs::remove(plan_.directory + "/class_000/00000005.npz");
    fs::remove(plan_.directory + "/class_000/00000006.npz");
    ASSERT_EQ(mkfifo((plan_.directory + "/class_000/00000006.npz").c_str(), 0600), 0);
    std::ofstream(plan_.directory + "/extra") << "x";
    const auto wrong = verify(plan_.directory, made->manifest, [](std::uint64_t) {});
    ASSERT_TRUE(wrong);
    ASSERT_EQ(wrong->size(), 5U);
    EXPECT_NE(wrong->at(0).what.find("XXH3-128"), std::string::npos);
    EXPECT_NE(wrong->at(1).what.find("10 bytes, expected 2000"), std::string::npos);
    EXPECT_NE(wrong->at(2).what.find("No such file"), std::string::npos);
    EXPECT_NE(wrong->at(3).what.find("not a regular file"), std::string::npos);
    EXPECT_EQ(wrong->at(4).path, "extra");
}

TEST_F(Dataset, ReadManifestRefusesWhatIsNone) {
    const std::string first = "# iobench manifest 1: XXH3-128, bytes, path\n", hash(32, 'a');
    for (const std::string& text :
         {std::string(), std::string("hello\n"), first + "x\n", first + hash + "\t12\t../etc/passwd\n",
          first + hash + "\t12\t/etc/passwd\n", first + hash + "\t-1\tx\n", first + hash + "\t12\t\n",
          first + hash + std::string("\t12\t..\0x\n", 9), first + hash + "\t99999999999999999999999\tx\n",
          first + std::string(32, 'Z') + "\t1\tx\n"}) {
        const std::string path = root_ + "/bad";
        std::ofstream(path) << text;
        const auto read = read_manifest(path);
        ASSERT_FALSE(read) << text;
        EXPECT_NE(read.error().message.find(path + ":"), std::string::npos);
    }
}

}  // namespace dataset_test
}  // namespace tierfs::iobench
