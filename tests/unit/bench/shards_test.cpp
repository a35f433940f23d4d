#include "bench/iobench/data/shards.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "bench/iobench/suites/samples.hpp"

namespace tierfs::iobench {
namespace shards_test {

namespace fs = std::filesystem;

std::vector<std::uint64_t> counts(const std::vector<ShardRange>& ranges) {
    std::vector<std::uint64_t> all;
    std::uint64_t next = 0;
    for (const ShardRange& range : ranges) {
        EXPECT_EQ(range.first, next);
        next += range.count;
        all.push_back(range.count);
    }
    return all;
}

TEST(ShardRanges, AreConsecutiveAndEven) {
    const std::vector<std::uint64_t> sizes(10, 5);
    EXPECT_EQ(counts(divide({3, 0}, sizes)), (std::vector<std::uint64_t>{4, 3, 3}));
    EXPECT_EQ(counts(divide({10, 0}, sizes)), std::vector<std::uint64_t>(10, 1));
    EXPECT_EQ(counts(divide({0, 15}, sizes)), (std::vector<std::uint64_t>{3, 3, 3, 1}));
    EXPECT_EQ(counts(divide({0, 1}, sizes)), std::vector<std::uint64_t>(10, 1));
    EXPECT_TRUE(divide({0, 1}, {}).empty());
}

/// What a command prints; its lines.
std::vector<std::string> lines_of(const std::string& command) {
    std::vector<std::string> lines;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return lines;
    char line[1000];
    while (std::fgets(line, sizeof line, pipe) != nullptr)
        lines.push_back(std::string(line).substr(0, std::string(line).find('\n')));
    EXPECT_EQ(pclose(pipe), 0) << command;
    return lines;
}

class Shards : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-test-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        plan_.directory = root_ + "/data";
        plan_.kind = Kind::npz;
        plan_.files = 25;
        plan_.size = 3000;
        plan_.size_stdev = 700;
        plan_.directories = 4;
        plan_.shards.count = 3;
        options_.path = plan_.directory;
        options_.manifest = root_ + "/manifest";
        options_.processes = 2;
    }
    void TearDown() override { fs::remove_all(root_); }

    DatasetOutcome make() {
        auto made = make_dataset(plan_);
        EXPECT_TRUE(made) << made.error().message;
        if (!made) return {};
        EXPECT_TRUE(write_manifest(root_ + "/manifest", made->manifest));
        return std::move(*made);
    }
    void spoil(const std::string& name, std::uint64_t at) const {
        std::fstream file(plan_.directory + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(at));
        const auto byte = static_cast<char>(file.peek() ^ 1);
        file.seekp(static_cast<std::streamoff>(at));
        file.put(byte);
    }

    std::string root_;
    DatasetPlan plan_;
    RunOptions options_;
};

TEST_F(Shards, AreTarsOfTheSamplesInOrder) {
    make();
    std::vector<std::string> members;
    for (std::uint64_t i = 0; i < 3; ++i)
        for (auto& line : lines_of("tar tf " + plan_.directory + "/" + shard_path(i)))
            members.push_back(line);
    ASSERT_EQ(members.size(), 25U);
    for (std::uint64_t i = 0; i < 25; ++i) EXPECT_EQ(members[i], file_path(plan_, i));
    fs::create_directory(root_ + "/out");
    for (std::uint64_t i = 0; i < 3; ++i)
        lines_of("tar xf " + plan_.directory + "/" + shard_path(i) + " -C " + root_ + "/out");
    EXPECT_TRUE(lines_of("diff -r --exclude=shards " + plan_.directory + " " + root_ + "/out").empty());
}

TEST_F(Shards, IndexSaysWhereEachSampleLies) {
    const auto made = make();
    const auto index = read_index(plan_.directory, kShardIndex, std::nullopt);
    ASSERT_TRUE(index && *index);
    ASSERT_EQ((*index)->size(), 25U);
    for (std::size_t i = 0; i < 25; ++i) {
        const IndexEntry& entry = (**index)[i];
        EXPECT_EQ(entry.sample, made.manifest[i].path);
        EXPECT_EQ(entry.hash, made.manifest[i].hash);
        std::vector<std::byte> bytes(entry.size);
        auto file = open_for_reading(plan_.directory + "/" + entry.file);
        ASSERT_TRUE(file);
        ASSERT_TRUE(read_at(*file, bytes, entry.offset, entry.file));
        EXPECT_EQ(hash_of(bytes), entry.hash);
    }
}

TEST_F(Shards, AreTheSameForAnyNumberOfThreadsAndCoveredByTheManifest) {
    plan_.threads = 1;
    const auto one = make();
    EXPECT_EQ(one.manifest.size(), 25U + 3 + 1);
    const auto wrong = verify(plan_.directory, one.manifest, [](std::uint64_t) {});
    ASSERT_TRUE(wrong);
    EXPECT_TRUE(wrong->empty());
    plan_.directory = root_ + "/other";
    plan_.threads = 4;
    const auto four = make_dataset(plan_);
    ASSERT_TRUE(four);
    EXPECT_EQ(four->manifest, one.manifest);
}

TEST_F(Shards, SecondRunKeepsWhatIsRightAndRepairsTheRest) {
    const auto first = make();
    EXPECT_EQ(first.written, 29U);
    spoil(shard_path(0), 3000);
    std::ofstream(plan_.directory + "/" + shard_path(1), std::ios::app) << "more";
    fs::remove(plan_.directory + "/" + std::string(kShardIndex));
    const auto second = make();
    EXPECT_EQ(second.written, 3U);
    EXPECT_EQ(second.kept, 26U);
    EXPECT_EQ(second.manifest, first.manifest);
}

TEST_F(Shards, PlansThatCannotBeAreRefused) {
    const auto refused = [&](const std::string& text) {
        const auto made = make_dataset(plan_);
        ASSERT_FALSE(made) << text;
        EXPECT_EQ(made.error().code, EINVAL);
        EXPECT_NE(made.error().message.find(text), std::string::npos) << made.error().message;
    };
    plan_.shards.count = 26;
    refused("more than --files");
    plan_.shards = {2, 1000};
    refused("give one of them");
    plan_.shards = {2, 0};
    plan_.records = 2;
    refused("--records-per-file");
    plan_.kind = Kind::tfrecord;
    refused("--tar-shards");
    plan_.records = 0;
    refused("--records-per-file");
}

TEST_F(Shards, SmallFilesReadsTheSameSamplesInEveryCase) {
    const auto made = make();
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < 25; ++i) bytes += made.manifest[i].size;
    const auto suite = smallfiles_kind()->make(options_);
    ASSERT_TRUE(suite) << suite.error().message;
    const auto cases = (*suite)->cases();
    ASSERT_EQ(cases, (std::vector<std::string>{"shuffled", "ordered", "tar-sequential", "tar-indexed"}));
    for (std::size_t which = 0; which < cases.size(); ++which) {
        const auto metrics = (*suite)->run(which, 1);
        ASSERT_TRUE(metrics) << cases[which] << ": " << metrics.error().message;
        std::map<std::string, double> values;
        for (const auto& metric : *metrics) values[metric.name] = metric.value;
        EXPECT_EQ(values["files"], 25) << cases[which];
        EXPECT_NEAR(values["mb_per_s"] * values["seconds"], static_cast<double>(bytes) / 1e6, 1e-9);
        EXPECT_EQ(values.contains("p99_us"), cases[which] != "tar-sequential");
    }
}

TEST_F(Shards, SamplesLargerThanABlockAreStreamedAndChecked) {
    plan_.size = 1'500'000;
    plan_.size_stdev = 400'000;
    plan_.files = 6;
    plan_.shards.count = 2;
    make();
    const auto suite = smallfiles_kind()->make(options_);
    ASSERT_TRUE(suite);
    ASSERT_TRUE((*suite)->run(2, 1));
    options_.samples.files = 4;  // the second shard's first one, and not its others
    const auto some = smallfiles_kind()->make(options_);
    ASSERT_TRUE(some);
    const auto metrics = (*some)->run(2, 1);
    ASSERT_TRUE(metrics);
    EXPECT_EQ(metrics->back().value, 4);
}

TEST_F(Shards, WrongContentIsFoundInShards) {
    make();
    const auto index = read_index(plan_.directory, kShardIndex, std::nullopt);
    ASSERT_TRUE(index && *index);
    spoil((**index)[20].file, (**index)[20].offset + 600);
    const auto suite = smallfiles_kind()->make(options_);
    ASSERT_TRUE(suite);
    EXPECT_TRUE((*suite)->run(0, 1));
    for (const std::size_t which : {2, 3}) {
        const auto metrics = (*suite)->run(which, 1);
        ASSERT_FALSE(metrics) << which;
        EXPECT_NE(metrics.error().message.find((**index)[20].file), std::string::npos);
    }
    fs::resize_file(plan_.directory + "/" + (**index)[20].file, 2000);
    for (const std::size_t which : {2, 3}) EXPECT_FALSE((*suite)->run(which, 1));
}

TEST_F(Shards, AChangedIndexIsFound) {
    make();
    spoil(std::string(kShardIndex), 100);
    const auto suite = smallfiles_kind()->make(options_);
    ASSERT_FALSE(suite);
    EXPECT_NE(suite.error().message.find("index.tsv"), std::string::npos);
}

TEST_F(Shards, ShardsAloneAreEnoughAndCasesCanBeChosen) {
    make();
    for (int i = 0; i < 4; ++i) fs::remove_all(plan_.directory + "/class_00" + std::to_string(i));
    auto kind = smallfiles_kind();
    const auto suite = kind->make(options_);
    ASSERT_TRUE(suite) << suite.error().message;
    EXPECT_EQ((*suite)->cases(), (std::vector<std::string>{"tar-sequential", "tar-indexed"}));
    CLI::App app;
    kind->add_options(app);
    app.parse("--access ordered", false);
    EXPECT_FALSE(kind->make(options_));
    CLI::App other;
    kind->add_options(other);
    other.parse("--access tar-indexed", false);
    const auto one = kind->make(options_);
    ASSERT_TRUE(one);
    EXPECT_EQ((*one)->cases(), std::vector<std::string>{"tar-indexed"});
    EXPECT_TRUE((*one)->run(0, 1));
}

TEST_F(Shards, AnIndexOutOfOrderIsRefusedByStreaming) {
    make();
    auto index = read_index(plan_.directory, kShardIndex, std::nullopt);
    ASSERT_TRUE(index && *index);
    std::swap((**index)[1], (**index)[2]);
    std::ofstream(plan_.directory + "/" + std::string(kShardIndex)) << index_text(**index);
    options_.manifest.clear();
    const auto suite = smallfiles_kind()->make(options_);
    ASSERT_TRUE(suite);
    EXPECT_FALSE((*suite)->run(2, 1));
    EXPECT_TRUE((*suite)->run(3, 1));
}

TEST(IndexText, HostileOnesAreRefusedWithTheirLine) {
    const std::string first = "# iobench index 1: XXH3-128, bytes, offset, file, sample\n";
    const std::string hash(32, 'a');
    const auto good = parse_index(first + hash + "\t10\t512\tshards/0.tar\ta b\n", "x");
    ASSERT_TRUE(good) << good.error().message;
    EXPECT_EQ(good->at(0), (IndexEntry{"a b", "shards/0.tar", 512, 10, hash}));
    EXPECT_EQ(index_text(*good), first + hash + "\t10\t512\tshards/0.tar\ta b\n");
    EXPECT_FALSE(parse_index("", "x"));
    EXPECT_FALSE(parse_index("hello\n", "x"));
    for (const std::string& line :
         {std::string("\n"), hash + "\t10\t512\tshards/0.tar\n", hash + "\t10\t512\t../0.tar\ta\n",
          hash + "\t10\t512\t/etc/passwd\ta\n", hash + "\t-1\t512\tf\ta\n", hash + "\t10\t\tf\ta\n",
          hash + "\t10\t9223372036854775807\tf\ta\n", hash + "\t18446744073709551615\t0\tf\ta\n",
          hash + "\t10\t99999999999999999999\tf\ta\n", std::string("zz\t10\t512\tf\ta\n"),
          hash + "\t10\t512\tf\t\n", hash + "\t10\t512\tf\ttruncated"}) {
        const auto parsed = parse_index(first + line, "name");
        ASSERT_FALSE(parsed) << line;
        EXPECT_EQ(parsed.error().code, EINVAL);
        EXPECT_NE(parsed.error().message.find("name:2"), std::string::npos);
    }
}

TEST_F(Shards, AFullDiskIsExplained) {
    // a limit on the size of files stands for the disk's: both end in a write that fails
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{2000, 2000};
        setrlimit(RLIMIT_FSIZE, &limit);
        const auto made = make_dataset(plan_);
        _exit(!made && made.error().message.find("make room") != std::string::npos ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(make_dataset(plan_));
}

}  // namespace shards_test
}  // namespace tierfs::iobench
