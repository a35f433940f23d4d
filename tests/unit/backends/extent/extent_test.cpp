// The extent format, its checksums, and reading it back from bytes that may be anything.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "backends/extent/chunk_writer.hpp"
#include "backends/extent/scan.hpp"
#include "config/base/crc32c.hpp"

namespace tierfs {
namespace extent_test {

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

TEST(Crc32cTest, KnownValues) {
    EXPECT_EQ(crc32c(0, {}), 0U);
    EXPECT_EQ(crc32c(0, bytes_of("123456789")), 0xE3069283U);
    EXPECT_EQ(crc32c_portable(0, bytes_of("123456789")), 0xE3069283U);
    EXPECT_EQ(crc32c(0, bytes_of(std::string(32, '\0'))), 0x8A9136AAU);    // RFC 3720, B.4
    EXPECT_EQ(crc32c(0, bytes_of(std::string(32, '\xFF'))), 0x62A8AB43U);  // RFC 3720, B.4
}

TEST(Crc32cTest, BothVersionsAgreeOnLongBytes) {
    std::mt19937 random(2);
    std::string text(100000, '\0');
    for (auto& c : text) c = static_cast<char>(random());
    for (const std::size_t length : {12287, 12288, 12289, 24575, 24576, 36863, 99999}) {
        const auto seed = static_cast<std::uint32_t>(random());
        const auto all = bytes_of(text).subspan(1, length);
        EXPECT_EQ(crc32c(seed, all), crc32c_portable(seed, all)) << length;
    }
}

TEST(Crc32cTest, BothVersionsAgreeAtEveryLengthAndGoOn) {
    std::mt19937 random(1);
    std::string text(300, '\0');
    for (auto& c : text) c = static_cast<char>(random());
    for (std::size_t length = 0; length <= text.size(); ++length) {
        const auto all = bytes_of(text).first(length);
        const auto want = crc32c_portable(0, all);
        EXPECT_EQ(crc32c(0, all), want);
        const std::size_t cut = length / 3;
        EXPECT_EQ(crc32c(crc32c(0, all.first(cut)), all.subspan(cut)), want);
    }
}

TEST(ExtentFormatTest, AChecksumKnowsWhoseAndWhichUnitItIs) {
    const auto data = bytes_of("the same bytes");
    const ContentId id{1, 2};
    const auto sum = unit_checksum(id, 0, kExtentUnit, data);
    EXPECT_NE(sum, 0U);
    EXPECT_NE(sum, unit_checksum({1, 3}, 0, kExtentUnit, data));
    EXPECT_NE(sum, unit_checksum({2, 1}, 0, kExtentUnit, data));
    EXPECT_NE(sum, unit_checksum(id, 1, kExtentUnit, data));
    EXPECT_NE(sum, unit_checksum(id, 0, kSidecarUnit, data));
}

TEST(ExtentFormatTest, FileNames) {
    const auto name = extent_file_name(0xABC, {0x0123456789ABCDEFU, 7});
    EXPECT_EQ(name, "0000000000000abc-0123456789abcdef0000000000000007.extent");
    const auto parsed = parse_extent_file_name(name);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->number, 0xABCU);
    EXPECT_EQ(parsed->uuid, (ExtentUuid{0x0123456789ABCDEFU, 7}));
    for (const std::string& bad :
         {std::string(), std::string("x"), name + "x", "0" + name, "A" + name.substr(1), "-" + name.substr(1),
          name.substr(0, 16) + "+" + name.substr(17)}) {
        EXPECT_FALSE(parse_extent_file_name(bad).has_value()) << bad;
    }
}

class ChunkTest : public ::testing::Test {
  protected:
    static bool add(ChunkWriter& writer, std::uint64_t number, std::string_view text) {
        const auto piece = bytes_of(text);
        return writer.add({number, number}, std::span(&piece, 1));
    }
    const ExtentUuid uuid_{11, 22};
};

TEST_F(ChunkTest, EntriesKeepTheAlignmentRules) {
    ChunkWriter writer;
    std::mt19937 random(5);
    std::vector<std::string> texts;
    for (std::uint64_t at = 0; at < 60; ++at) {
        texts.emplace_back(1 + random() % (at % 3 == 0 ? 20000 : 4095), static_cast<char>('a' + at % 26));
        ASSERT_TRUE(add(writer, at, texts.back()));
    }
    const auto bytes = writer.finish(uuid_, 3, 8192);
    EXPECT_TRUE(is_aligned(bytes.data()));
    EXPECT_EQ(bytes.size() % kDiskAlignment, 0U);
    const auto table = parse_chunk_table(bytes, uuid_, 8192);
    ASSERT_TRUE(table.has_value());
    EXPECT_EQ(table->chunk, 3U);
    EXPECT_EQ(table->end(), 8192 + bytes.size());
    ASSERT_EQ(table->entries.size(), texts.size());
    for (std::size_t at = 0; at < texts.size(); ++at) {
        const ChunkEntry& entry = table->entries[at];
        EXPECT_EQ(entry.id, (ContentId{at, at}));
        ASSERT_EQ(entry.stored_length, texts[at].size());
        if (entry.stored_length >= 4096) {
            EXPECT_EQ(entry.offset % 4096, 0U);
        } else {
            EXPECT_EQ(entry.offset / 4096, (entry.offset + entry.stored_length - 1) / 4096);
        }
        const auto data = bytes.subspan(table->table_bytes + entry.offset, entry.stored_length);
        EXPECT_TRUE(std::equal(data.begin(), data.end(), bytes_of(texts[at]).begin()));
    }
}

/// As encode_chunk_table writes it, checksum and all, whatever the entries say.
std::optional<ChunkTable> parsed(std::vector<ChunkEntry> entries) {
    ChunkTable table;
    table.uuid = {11, 22};
    table.data_bytes = 8192;
    table.entries = std::move(entries);
    AlignedBuffer buffer(kMaxTableBytes);
    encode_chunk_table(table, buffer.span());
    return parse_chunk_table(buffer.span(), table.uuid, 0);
}

TEST_F(ChunkTest, EntriesThatOverlapMakeNoTable) {
    EXPECT_TRUE(parsed({{{1, 1}, 100, 0, 100, 0, {7}}, {{2, 2}, 100, 100, 100, 0, {7}}}));
    EXPECT_FALSE(parsed({{{1, 1}, 100, 0, 100, 0, {7}}, {{2, 2}, 100, 99, 100, 0, {7}}}));
    EXPECT_FALSE(parsed({{{1, 1}, 100, 100, 100, 0, {7}}, {{2, 2}, 100, 0, 100, 0, {7}}}));
    EXPECT_FALSE(parsed({{{1, 1}, 5000, 0, 5000, 0, {7}}, {{2, 2}, 10, 4999, 10, 0, {7}}}));
}

TEST_F(ChunkTest, AnEntryWithoutChecksumsMakesNoTable) {
    EXPECT_FALSE(parsed({{{1, 1}, 0, 0, 0, 0, {}}}));
    EXPECT_FALSE(parsed({{{1, 1}, 100, 0, 100, 0, {}}}));
}

TEST_F(ChunkTest, TakesNoMoreThanItsRoom) {
    ChunkWriter writer;
    writer.start(16384);
    EXPECT_FALSE(add(writer, 1, std::string(12289, 'x')));
    EXPECT_TRUE(writer.empty());
    EXPECT_TRUE(add(writer, 1, std::string(12288, 'x')));
    EXPECT_TRUE(writer.holds({1, 1}));
    EXPECT_FALSE(add(writer, 2, "y"));
    EXPECT_FALSE(add(writer, 3, ""));
    EXPECT_EQ(writer.finish(uuid_, 0, 0).size(), 16384U);
    ChunkWriter tiny;
    unsigned count = 0;
    while (add(tiny, count, "z")) ++count;
    EXPECT_GT(count, 1000U);
    EXPECT_LE(tiny.finish(uuid_, 0, 0).size(), kMaxTableBytes + kMaxChunkData);
    EXPECT_TRUE(parse_chunk_table(tiny.finish(uuid_, 0, 0), uuid_, 0).has_value());
    tiny.clear();
    EXPECT_TRUE(tiny.empty());
    EXPECT_FALSE(tiny.holds({1, 1}));
}

TEST_F(ChunkTest, ATableOfAnotherPlaceOrExtentIsNone) {
    ChunkWriter writer;
    add(writer, 1, "hello");
    const auto bytes = writer.finish(uuid_, 0, 4096);
    EXPECT_TRUE(parse_chunk_table(bytes, uuid_, 4096).has_value());
    EXPECT_FALSE(parse_chunk_table(bytes, uuid_, 8192).has_value());
    EXPECT_FALSE(parse_chunk_table(bytes, {11, 23}, 4096).has_value());
    EXPECT_FALSE(parse_chunk_table(bytes.first(100), uuid_, 4096).has_value());
    EXPECT_FALSE(parse_chunk_table({}, uuid_, 4096).has_value());
}

TEST_F(ChunkTest, AnyFlippedBitOfATableIsNoticed) {
    ChunkWriter writer;
    for (std::uint64_t at = 0; at < 5; ++at) add(writer, at, std::string(100 * (at + 1), 'q'));
    const auto bytes = writer.finish(uuid_, 0, 0);
    std::vector<std::byte> copy(bytes.begin(), bytes.begin() + 4096);
    for (std::size_t at = 0; at < copy.size(); ++at) {
        copy[at] ^= std::byte{4};
        EXPECT_FALSE(parse_chunk_table(copy, uuid_, 0).has_value()) << at;
        copy[at] ^= std::byte{4};
    }
    EXPECT_TRUE(parse_chunk_table(copy, uuid_, 0).has_value());
}

class ScanTest : public ChunkTest {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "tierfs-extent-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        directory_ = name;
        auto file = DiskFile::open(directory_ / "extent", {.write = true, .create = true});
        ASSERT_TRUE(file.has_value());
        file_.emplace(std::move(*file));
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    /// Writes `count` chunks of one object each, 8 KiB a chunk.
    void write_chunks(std::uint64_t count) {
        ChunkWriter writer;
        for (std::uint64_t at = 0; at < count; ++at) {
            writer.clear();
            ASSERT_TRUE(add(writer, at, std::string(3000, 'c')));
            const auto bytes = writer.finish(uuid_, static_cast<std::uint32_t>(at), at * 8192);
            ASSERT_TRUE(file_->write(bytes, at * 8192).has_value());
        }
    }
    std::vector<std::uint64_t> scan(ExtentScan* result = nullptr) {
        std::vector<std::uint64_t> found;
        const auto done = scan_extent(*file_, uuid_, [&](const ChunkTable& table) {
            for (const auto& entry : table.entries) found.push_back(entry.id.high);
            return true;
        });
        EXPECT_TRUE(done.has_value());
        if (done && result != nullptr) *result = *done;
        return found;
    }
    void overwrite(std::uint64_t offset, std::byte value) {
        AlignedBuffer page(kDiskAlignment);
        std::fill(page.span().begin(), page.span().end(), value);
        ASSERT_TRUE(file_->write(page.span(), offset).has_value());
    }

    std::filesystem::path directory_;
    std::optional<DiskFile> file_;
};

TEST_F(ScanTest, FindsEveryChunkAndWhereTheWriterStopped) {
    write_chunks(5);
    ASSERT_TRUE(file_->truncate(1 << 20).has_value());
    ExtentScan result;
    EXPECT_EQ(scan(&result), (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(result.end, 5U * 8192);
    EXPECT_EQ(result.chunks, 5U);
    EXPECT_TRUE(result.intact);
}

TEST_F(ScanTest, GoesOnBehindADamagedTable) {
    write_chunks(5);
    overwrite(2 * 8192, std::byte{0x55});
    ExtentScan result;
    EXPECT_EQ(scan(&result), (std::vector<std::uint64_t>{0, 1, 3, 4}));
    EXPECT_FALSE(result.intact);
}

TEST_F(ScanTest, AChunkThatWasCutIsNotThere) {
    write_chunks(3);
    ASSERT_TRUE(file_->truncate(2 * 8192 + 4096 + 100).has_value());
    EXPECT_EQ(scan(), (std::vector<std::uint64_t>{0, 1}));
}

TEST_F(ScanTest, EmptyAndForeignFiles) {
    EXPECT_TRUE(scan().empty());
    for (std::uint64_t at = 0; at < 20; ++at) overwrite(at * kDiskAlignment, std::byte{0xAA});
    EXPECT_TRUE(scan().empty());
}

}  // namespace extent_test
}  // namespace tierfs
