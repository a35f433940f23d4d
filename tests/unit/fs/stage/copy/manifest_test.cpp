#include "fs/stage/copy/manifest.hpp"

#include <gtest/gtest.h>

#include "tests/unit/fs/stage/copy/temporary_folder.hpp"

namespace tierfs::stage {

namespace manifest_test {

ManifestRecord record_of(const std::string& path, std::uint64_t size = 5) {
    ManifestRecord record;
    record.path = path;
    record.size = size;
    record.source = "s3://host/bucket";
    record.source_version = "\"etag\"";
    record.mtime_ns = -1500000001;
    record.mode = 0640;
    record.xxh3 = 0xfedcba9876543210;
    for (std::uint64_t at = 0; at < size; at += kChunkBytes)
        record.crc32c.push_back(static_cast<std::uint32_t>(at / kChunkBytes + 1));
    record.device = "259:3";
    record.extents = 2;
    record.time = 1700000000;
    return record;
}

ManifestRecord read_back(const ManifestRecord& record) {
    const std::string line = to_line(record);
    EXPECT_EQ(line.back(), '\n');
    const auto read = parse_record(std::string_view(line).substr(0, line.size() - 1));
    EXPECT_TRUE(read) << read.error().message;
    return read.value_or(ManifestRecord{});
}

TEST(StageManifest, RecordsComeBackAsTheyWere) {
    for (const auto& path : {std::string("a"), std::string("d/\xc3\xa4/\"quoted\"\n"),
                             std::string("bad-\xff\xfe/x"), std::string(255, 'n')})
        EXPECT_EQ(read_back(record_of(path)), record_of(path));
    for (const std::uint64_t size : {std::uint64_t{0}, kChunkBytes - 1, kChunkBytes, kChunkBytes + 1})
        EXPECT_EQ(read_back(record_of("f", size)), record_of("f", size));
    ManifestRecord link = record_of("l", 0);
    link.link = "\x80/target";
    EXPECT_EQ(read_back(link), link);
    ManifestRecord removed = record_of("r");
    removed.state = RecordState::removed;
    removed.crc32c.clear();
    EXPECT_EQ(read_back(removed), removed);
}

TEST(StageManifest, ForgedRecordsAreRefused) {
    const std::string good = to_line(record_of("a"));
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string line = good.substr(0, good.size() - 1);
        const auto at = line.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return line.replace(at, from.size(), to);
    };
    for (const char* path : {"/etc/passwd", "../a", "a/../b", "a//b", "./a", "a/", ""})
        EXPECT_FALSE(parse_record(with(R"("path":"a")", R"("path":")" + std::string(path) + '"'))) << path;
    EXPECT_FALSE(parse_record(with(R"("path":"a")", R"("path":"a\u0000b")")));
    EXPECT_FALSE(parse_record(with(R"("path":"a")", R"("path_hex":"2e2e")")));
    EXPECT_FALSE(parse_record(with(R"("path":"a")", R"("path_hex":"6")")));
    EXPECT_FALSE(parse_record(with(R"("path":"a")", R"("path":7)")));
    EXPECT_FALSE(parse_record(with(R"("size":5)", R"("size":-5)")));
    EXPECT_FALSE(parse_record(with(R"("size":5)", R"("size":5.5)")));
    EXPECT_FALSE(parse_record(with(R"("size":5)", R"("size":16777217)"))) << "one checksum, two chunks";
    EXPECT_FALSE(parse_record(with(R"("mode":416)", R"("mode":70000)")));
    EXPECT_FALSE(parse_record(with(R"(["00000001"])", R"(["1"])")));
    EXPECT_FALSE(parse_record(with(R"(["00000001"])", R"("00000001")")));
    EXPECT_FALSE(parse_record(with("staged", "stage")));
    for (const char* text : {"", "{", "[]", "null", "\"a\"", "{}", "\xff"}) EXPECT_FALSE(parse_record(text));
}

TEST(StageManifest, TheLastRecordOfAPathCounts) {
    const TemporaryFolder folder;
    const ManifestHeader header{"dir:/source", "1.0", {{"kind", "out"}}};
    auto writer = ManifestWriter::open(folder.books(), "m", header);
    ASSERT_TRUE(writer) << writer.error().message;
    auto newer = record_of("a", 7);
    auto removed = record_of("b");
    removed.state = RecordState::removed;
    const std::vector<ManifestRecord> records = {record_of("a"), record_of("b"), newer, removed,
                                                 record_of("c")};
    ASSERT_TRUE(writer->append(records));
    ASSERT_TRUE(writer->sync());
    const auto loaded = Manifest::load(folder.books(), "m");
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->header, header);
    ASSERT_EQ(loaded->records.size(), 2U);
    EXPECT_EQ(loaded->records.at("a"), newer);
}

TEST(StageManifest, ATornLastLineIsCutOff) {
    const TemporaryFolder folder;
    const std::string header = to_line(ManifestHeader{"dir:/s", "1", {}});
    const std::string line = to_line(record_of("a"));
    for (const std::size_t cut : {std::size_t{1}, line.size() / 2, line.size() - 1}) {
        folder.write("m", header + line + line.substr(0, cut));
        const auto loaded = Manifest::load(folder.books(), "m");
        ASSERT_TRUE(loaded) << loaded.error().message;
        EXPECT_EQ(loaded->good_bytes, header.size() + line.size());
        auto writer = ManifestWriter::open(folder.books(), "m", {});
        ASSERT_TRUE(writer);
        const std::vector<ManifestRecord> more = {record_of("b")};
        ASSERT_TRUE(writer->append(more));
        EXPECT_EQ(folder.read("m"), header + line + to_line(record_of("b")));
    }
}

TEST(StageManifest, DamageIsSaidWithItsPlace) {
    const TemporaryFolder folder;
    const std::string header = to_line(ManifestHeader{"dir:/s", "1", {}});
    folder.write("m", header + "damage\n" + to_line(record_of("a")));
    const auto loaded = Manifest::load(folder.books(), "m");
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().message.find("m:2: "), std::string::npos) << loaded.error().message;
    folder.write("m", "");
    EXPECT_FALSE(Manifest::load(folder.books(), "m"));
    folder.write("m", R"({"format":"tierfs-stage-manifest","version":2,"source":"","created_by":""})"
                      "\n");
    EXPECT_NE(Manifest::load(folder.books(), "m").error().message.find("version 2"), std::string::npos);
    EXPECT_EQ(Manifest::load(folder.books(), "none").error().code, ENOENT);
    EXPECT_EQ(Manifest::load(folder.books(), ".").error().code, EISDIR);
}

}  // namespace manifest_test
}  // namespace tierfs::stage
