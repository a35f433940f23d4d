#include "fs/stage/copy/plan.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fs/stage/copy/content.hpp"
#include "tests/unit/fs/stage/copy/temporary_folder.hpp"

namespace tierfs::stage {

namespace plan_test {

constexpr const char* kSource = "dir:/source";

SourceFile source_file(const std::string& path, std::uint64_t size, const std::string& version = "v1") {
    SourceFile file;
    file.path = path;
    file.attributes.size = size;
    file.attributes.version = version;
    return file;
}

/// A folder with books, and what plans say of it.
class StagePlan : public testing::Test {
  protected:
    void open() {
        Destination::Options options;
        options.create = true;
        options.source = kSource;
        auto destination = Destination::open(folder_.path().string(), options, stop_);
        ASSERT_TRUE(destination) << destination.error().message;
        destinations_.clear();
        destinations_.push_back(std::move(*destination));
    }

    /// As if `in` had done it.
    void stage(const SourceFile& file) {
        folder_.write(file.path, std::string(file.attributes.size, 'x'));
        struct stat status {};
        ASSERT_EQ(::stat((folder_ / file.path).c_str(), &status), 0);
        ManifestRecord record;
        record.path = file.path;
        record.size = file.attributes.size;
        record.source = kSource;
        record.source_version = file.attributes.version;
        record.mtime_ns = status.st_mtim.tv_sec * std::int64_t{1000000000} + status.st_mtim.tv_nsec;
        record.crc32c.resize(file.attributes.size == 0 ? 0 : 1);
        auto writer = ManifestWriter::open(destinations_[0].books(), kManifest, {kSource, "1", {}});
        ASSERT_TRUE(writer);
        const std::vector<ManifestRecord> records = {record};
        ASSERT_TRUE(writer->append(records));
        destinations_.clear();  // its lock
        open();
    }

    Plan plan(std::vector<SourceFile> files, const PlanOptions& options = {}) {
        SourceTree tree;
        tree.files = std::move(files);
        auto made = make_plan(tree, kSource, destinations_, options);
        EXPECT_TRUE(made) << made.error().message;
        return made.value_or(Plan{});
    }

    TemporaryFolder folder_;
    StopFlag stop_;
    std::vector<Destination> destinations_;
};

TEST_F(StagePlan, WhatIsStagedIsKeptAndWhatChangedIsCopied) {
    open();
    stage(source_file("a", 10));
    stage(source_file("b", 20));
    const Plan made = plan({source_file("a", 10), source_file("b", 20, "v2"), source_file("c", 30)});
    EXPECT_EQ(made.kept_files, 1U);
    EXPECT_EQ(made.kept_bytes, 10U);
    ASSERT_EQ(made.copies.size(), 2U);
    EXPECT_EQ(made.copies[0].file.path, "b");
    EXPECT_TRUE(made.copies[0].replaces);
    EXPECT_EQ(made.copies[1].file.path, "c");
    EXPECT_FALSE(made.copies[1].replaces);
    EXPECT_EQ(made.copy_bytes, 50U);
    EXPECT_TRUE(made.removals.empty());
}

TEST_F(StagePlan, WhatTheSourceLacksIsRemovedOnRequest) {
    open();
    stage(source_file("a", 10));
    EXPECT_TRUE(plan({}).removals.empty());
    PlanOptions options;
    options.remove_vanished = true;
    ASSERT_EQ(plan({}, options).removals.size(), 1U);
    EXPECT_EQ(plan({}, options).removals[0].path, "a");
    SourceTree partial;
    partial.problems.emplace_back("a folder could not be listed");
    EXPECT_TRUE(make_plan(partial, kSource, destinations_, options)->removals.empty());
}

TEST_F(StagePlan, ForeignAndChangedFilesAreProblems) {
    open();
    stage(source_file("changed", 10));
    folder_.write("changed", "shorter");
    folder_.write("foreign", "x");
    folder_.write("folder", "a file");
    const std::vector<SourceFile> files = {source_file("changed", 10, "v2"), source_file("foreign", 1),
                                           source_file("folder/file", 1), source_file("free", 1)};
    const Plan made = plan(files);
    EXPECT_EQ(made.problems.size(), 3U);
    ASSERT_EQ(made.copies.size(), 1U);
    EXPECT_EQ(made.copies[0].file.path, "free");
    PlanOptions options;
    options.overwrite = true;
    EXPECT_EQ(plan(files, options).copies.size(), 4U);
}

TEST_F(StagePlan, LargeFilesComeFirst) {
    open();
    const Plan made = plan({source_file("a", 1), source_file("b", kHintFrom), source_file("c", 2),
                            source_file("d", kHintFrom + 1)});
    ASSERT_EQ(made.copies.size(), 4U);
    EXPECT_EQ(made.copies[0].file.path, "d");
    EXPECT_EQ(made.copies[1].file.path, "b");
    EXPECT_EQ(made.copies[2].file.path, "a");
}

TEST_F(StagePlan, ShardsDivideTheFiles) {
    open();
    std::vector<SourceFile> files;
    for (int i = 0; i < 100; ++i) files.push_back(source_file("f" + std::to_string(i), 1));
    std::size_t sum = 0;
    for (unsigned i = 1; i <= 3; ++i) {
        PlanOptions options;
        options.shard = {i, 3};
        const auto count = plan(files, options).copies.size();
        EXPECT_GT(count, 15U);
        sum += count;
    }
    EXPECT_EQ(sum, files.size());
}

TEST_F(StagePlan, TooLittleRoomIsCounted) {
    open();
    PlanOptions options;
    options.keep_free.percent = 99.999;
    const Plan made = plan({source_file("a", std::uint64_t{1} << 60)}, options);
    EXPECT_TRUE(made.copies.empty());
    EXPECT_GT(made.lacking_bytes, std::uint64_t{1} << 59);
}

TEST_F(StagePlan, AnInterruptedFileGoesOnAndAnotherVersionDoesNot) {
    open();
    const std::string part = part_name("a", kSource, "v1");
    {
        const auto journal = Journal::open(destinations_[0].books(), destinations_[0].journal_name());
        ASSERT_TRUE(journal);
        ASSERT_TRUE(journal->begin(part, {"a", "v1", 100, {}}));
        ASSERT_TRUE(journal->piece(part, {0, 50, 1}));
    }
    destinations_.clear();
    open();
    const Plan same = plan({source_file("a", 100)});
    ASSERT_EQ(same.copies.size(), 1U);
    EXPECT_EQ(same.copies[0].unfinished.pieces.size(), 1U);
    EXPECT_EQ(same.resumed_bytes, 50U);
    EXPECT_TRUE(same.stale_parts.empty());
    const Plan other = plan({source_file("a", 100, "v2")});
    EXPECT_TRUE(other.copies[0].unfinished.pieces.empty());
    ASSERT_EQ(other.stale_parts.size(), 1U);
    EXPECT_EQ(other.stale_parts[0].second, part);
    EXPECT_EQ(other.remarks.size(), 1U);
}

TEST_F(StagePlan, AFolderHasOneStageAtATime) {
    open();
    Destination::Options options;
    options.create = true;
    const auto second = Destination::open(folder_.path().string(), options, stop_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EWOULDBLOCK);
    options.shard = {1, 2};
    EXPECT_FALSE(Destination::open(folder_.path().string(), options, stop_));
    destinations_.clear();
    const auto first_half = Destination::open(folder_.path().string(), options, stop_);
    ASSERT_TRUE(first_half) << first_half.error().message;
    EXPECT_FALSE(Destination::open(folder_.path().string(), options, stop_)) << "the same shard";
    options.shard = {1, 3};
    EXPECT_FALSE(Destination::open(folder_.path().string(), options, stop_)) << "another number of shards";
    options.shard = {2, 2};
    EXPECT_TRUE(Destination::open(folder_.path().string(), options, stop_));
}

TEST(StageShard, IsWrittenAsAShare) {
    EXPECT_EQ(parse_shard("2/8")->number, 3U);
    EXPECT_EQ(parse_shard("0/1")->suffix(), "");
    EXPECT_EQ(parse_shard("2/8")->suffix(), "-3-of-8");
    for (const char* wrong : {"", "/", "1", "4/4", "5/4", "1/0", "-1/4", "1/4x", "a/b", "1/99999999"})
        EXPECT_FALSE(parse_shard(wrong)) << wrong;
}

TEST(StageContent, SumsAreOfChunks) {
    const std::vector<std::byte> chunk(kChunkBytes, std::byte{7});
    ContentSums sums;
    sums.add(std::span(chunk).first(1000));
    EXPECT_NE(sums.chunk_crc_with(std::span(chunk).first(5)), sums.chunk_crc());
    sums.add(std::span(chunk).subspan(1000));
    ASSERT_EQ(sums.chunks().size(), 1U);
    sums.add(std::span(chunk).first(3));
    sums.end();
    ASSERT_EQ(sums.chunks().size(), 2U);
    ContentSums whole;
    whole.add(chunk);
    whole.end();
    ASSERT_EQ(whole.chunks().size(), 1U);
    EXPECT_EQ(whole.chunks()[0], sums.chunks()[0]);
    ContentSums empty;
    empty.end();
    EXPECT_TRUE(empty.chunks().empty());
}

TEST(StageContent, AChangedByteIsFound) {
    const TemporaryFolder folder;
    const std::string text(10000, 'x');
    folder.write("f", text);
    ContentSums sums;
    sums.add(std::as_bytes(std::span(text)));
    sums.end();
    ManifestRecord record;
    record.size = text.size();
    record.xxh3 = sums.xxh3();
    record.crc32c = sums.chunks();
    const auto compare = [&] {
        const auto fd = open_direct(AT_FDCWD, folder / "f");
        EXPECT_TRUE(fd);
        return compare_content(fd->get(), record, [] { return false; }).value_or("error");
    };
    EXPECT_EQ(compare(), "");
    folder.write("f", text.substr(1) + "y");
    EXPECT_NE(compare(), "");
    folder.write("f", text + "x");
    EXPECT_NE(compare(), "");
    EXPECT_FALSE(open_direct(AT_FDCWD, folder / "none"));
}

TEST_F(StagePlan, NamesOfOneFileAreCopiedOnce) {
    open();
    auto named = [](const std::string& path, std::uint64_t link) {
        auto file = source_file(path, 100);
        file.attributes.link = link;
        return file;
    };
    const auto made = plan({named("a", 7), named("b", 7), named("c", 8), named("d", 7), named("e", 0)});
    ASSERT_EQ(made.copies.size(), 3U);
    EXPECT_EQ(made.copy_bytes, 300U);
    ASSERT_EQ(made.names.size(), 2U);
    EXPECT_EQ(made.names[0].file.path, "b");
    EXPECT_EQ(made.names[1].name_of, "a");
    EXPECT_EQ(made.places.size(), 5U);
    // One that is there is the one to link to, wherever it stands in the order.
    stage(named("d", 7));
    const auto again = plan({named("a", 7), named("d", 7)});
    EXPECT_TRUE(again.copies.empty());
    ASSERT_EQ(again.names.size(), 1U);
    EXPECT_EQ(again.names[0].name_of, "d");
}

}  // namespace plan_test
}  // namespace tierfs::stage
