#include "backends/pack/index.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "backends/pack/block.hpp"
#include "backends/pack/index_writer.hpp"
#include "tests/unit/backends/pack/index_v1.hpp"
#include "tests/unit/backends/pack/pack_entries.hpp"
#include "tests/unit/fs/stage/copy/temporary_folder.hpp"

namespace tierfs::pack {
namespace index_test {

class PackIndexTest : public testing::Test {
  protected:
    std::string write(const std::string& bytes) {
        auto path = folder_ / ("index" + std::to_string(++files_));
        std::ofstream(path, std::ios::binary) << bytes;
        return path;
    }
    std::unique_ptr<PackIndex> open(const std::string& bytes) {
        auto index = PackIndex::open(write(bytes));
        EXPECT_TRUE(index) << index.error().message;
        return index ? std::move(*index) : nullptr;
    }
    static std::vector<std::string> names(PackIndex& index, const std::string& directory,
                                          const std::string& after = "") {
        std::vector<std::string> found;
        const auto listed = index.list(directory, after, [&](const Entry& entry) {
            found.push_back(entry.name);
            return true;
        });
        EXPECT_TRUE(listed) << listed.error().message;
        return found;
    }

    stage::TemporaryFolder folder_;
    int files_ = 0;
};

std::vector<Entry> odd_entries() {
    std::vector<Entry> entries(1);
    entries[0] = directory_entry("", "");
    for (const char* version :
         {"", "\"0123456789abcdef0123456789abcdef\"", "\"0123456789abcdef0123456789abcdef-12\"",
          "\"0123456789abcdef0123456789abcdef-012\"", "\"0123456789ABCDEF0123456789abcdef\"", "W/\"weak\"",
          "7:5:-3:-4", "07:5:-3:-4", "18446744073709551615:5:-3:-4", "18446744073709551616:5:-3:-4",
          "1700000000-5", "\"", "\"-1\""}) {
        Entry entry = directory_entry("", "a" + std::to_string(entries.size() + 10));
        entry.attributes.kind = ObjectKind::file;
        entry.attributes.size = 5;
        entry.attributes.mtime_ns = -3;
        entry.attributes.ctime_ns = -4;
        entry.attributes.uid = 4294967295U;
        entry.attributes.archived = entries.size() % 2 == 0;
        entry.attributes.version = version;
        entries.push_back(entry);
    }
    entries.push_back(directory_entry("", "b"));
    Entry link = directory_entry("", "link\xff\n");
    link.attributes.kind = ObjectKind::symlink;
    link.link = "../else\xfewhere";
    entries.push_back(link);
    Entry far = file_entry("b", 1, false);
    far.attributes.mtime_ns = INT64_MAX;
    far.attributes.ctime_ns = INT64_MIN;
    far.attributes.size = UINT64_MAX;
    entries.push_back(far);
    std::uint64_t end = 4096;
    entries.push_back(file_entry("b", 2, true));
    pack_entry(entries.back(), 1, end);
    entries.push_back(file_entry("b", 3, true));
    end = 100;
    pack_entry(entries.back(), 0, end);
    entries.back().place->offset += 12345;
    entries.push_back(file_entry("b-c", 3, true));
    entries.push_back(file_entry("b/c", 3, true));
    return entries;
}

TEST_F(PackIndexTest, WhatIsWrittenReadsBack) {
    const auto entries = odd_entries();
    const auto block = encode_block(entries);
    const auto again = decode_block(block, 2);
    ASSERT_TRUE(again);
    ASSERT_EQ(again->size(), entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i)
        EXPECT_TRUE(same((*again)[i], entries[i])) << i << entries[i].path();
    EXPECT_FALSE(decode_block(block, 1)) << "a place in an extent that there is not";
    EXPECT_FALSE(decode_block(block + '\0', 2));
    EXPECT_FALSE(decode_block(block.substr(0, block.size() - 1), 2));
}

TEST_F(PackIndexTest, AVersionThatIsNoHeaderIsRefused) {
    auto entries = odd_entries();
    for (const char* version : {"\"a\"\r\n\r\nDELETE /bucket/precious HTTP/1.1\r\n", "\"\x7f\"", "1\n"}) {
        entries[1].attributes.version = version;
        EXPECT_FALSE(decode_block(encode_block(entries), 2)) << version;
    }
}

TEST_F(PackIndexTest, FindsAndLists) {
    IndexWriter writer;
    ASSERT_TRUE(writer.add(directory_entry("", "")));
    for (const char* name : {"a", "a-", "empty"}) ASSERT_TRUE(writer.add(directory_entry("", name)));
    for (unsigned i = 0; i < 1000; ++i) ASSERT_TRUE(writer.add(file_entry("a", i, true)));
    ASSERT_TRUE(writer.add(file_entry("a-", 7, true)));
    EXPECT_EQ(writer.add(file_entry("a-", 7, true)).error().code, EINVAL) << "twice";
    EXPECT_EQ(writer.add(file_entry("a-/../b", 7, true)).error().code, EINVAL);
    const auto index = open(writer.finish({}));
    ASSERT_TRUE(index);
    EXPECT_EQ(index->count(), 1005U);
    EXPECT_EQ(names(*index, ""), (std::vector<std::string>{"a", "a-", "empty"}));
    EXPECT_EQ(names(*index, "a").size(), 1000U);
    EXPECT_LE(index->about_in("a"), 1256U);
    EXPECT_GE(index->about_in("a"), 744U);
    for (const char* small : {"", "a-", "empty", "none"}) EXPECT_LE(index->about_in(small), 256U) << small;
    EXPECT_EQ(names(*index, "a", "sample_00000996.jpeg").size(), 3U);
    EXPECT_EQ(names(*index, "a", "sample_00000996.jpeg!").size(), 3U);
    EXPECT_EQ(names(*index, "a-").size(), 1U);
    EXPECT_TRUE(names(*index, "empty").empty());
    for (const unsigned i : {0U, 255U, 256U, 257U, 999U}) {
        const auto wanted = file_entry("a", i, true);
        const auto found = index->find(wanted.path());
        ASSERT_TRUE(found) << i;
        EXPECT_TRUE(same(*found, wanted));
    }
    EXPECT_EQ(index->find("")->attributes.kind, ObjectKind::directory);
    for (const char* path : {"b", "a/", "a/sample", "/", "zzz", "a/sample_00000999.jpeg/x"})
        EXPECT_EQ(index->find(path).error().code, ENOENT) << path;
    const auto each = [](const Entry&) { return true; };
    EXPECT_EQ(index->list("b", "", each).error().code, ENOENT);
    EXPECT_EQ(index->list("a-/sample_00000007.jpeg", "", each).error().code, ENOTDIR);
}

TEST_F(PackIndexTest, NoDamagePassesUnnoticed) {
    IndexWriter writer;
    ASSERT_TRUE(writer.add(directory_entry("", "")));
    std::uint64_t end = 4096;
    for (unsigned i = 0; i < 40; ++i) {
        auto entry = file_entry("", i, i % 2 == 0);
        pack_entry(entry, 0, end);
        ASSERT_TRUE(writer.add(std::move(entry)));
    }
    const auto bytes = writer.finish({Extent{{1, 2}, 1 << 20}});
    const auto sound = open(bytes);
    ASSERT_TRUE(sound);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        auto spoilt = bytes;
        spoilt[at] = static_cast<char>(spoilt[at] ^ 0x11);
        const auto index = PackIndex::open(write(spoilt));
        if (!index) continue;
        const auto walked = (*index)->for_each([&](const Entry& entry) {
            const auto wanted = sound->find(entry.path());
            EXPECT_TRUE(wanted && same(*wanted, entry)) << at;
            return true;
        });
        // The version's upper half of the header and the zeros are nobody's.
        if (walked) {
            EXPECT_TRUE(at < kHeaderBytes || at >= bytes.size() - kFooterBytes) << at;
        }
    }
    for (std::size_t length = 0; length < bytes.size(); length += 7)
        EXPECT_FALSE(PackIndex::open(write(bytes.substr(0, length))));
}

TEST_F(PackIndexTest, AMillionSmallFilesTakeSixtyBytesEach) {
    constexpr unsigned kFiles = 50'000;  // it grows with their number alone
    for (const bool digest : {true, false}) {
        IndexWriter writer;
        ASSERT_TRUE(writer.add(directory_entry("", "")));
        std::uint64_t end = 4096;
        for (unsigned i = 0; i < kFiles; ++i) {
            auto entry = file_entry("train/n0" + std::to_string(1000 + i / 1000), i, digest);
            pack_entry(entry, i / 5000, i % 5000 == 0 ? end = 4096 : end);
            ASSERT_TRUE(writer.add(std::move(entry)));
        }
        const auto bytes = writer.finish(std::vector<Extent>(10));
        EXPECT_LT(bytes.size() / kFiles, 60U);
        RecordProperty(digest ? "bytes_a_file_s3" : "bytes_a_file_directory",
                       static_cast<int>(bytes.size() / kFiles));
        std::printf("%.1f bytes a file\n", static_cast<double>(bytes.size()) / kFiles);
        EXPECT_EQ(open(bytes)->count(), kFiles + 1);
    }
}

std::string sample_v1() {
    std::string bytes;
    for (const std::string_view line : kIndexV1) {
        for (std::size_t at = 0; at < line.size(); at += 2)
            bytes.push_back(static_cast<char>(std::stoi(std::string(line.substr(at, 2)), nullptr, 16)));
    }
    return bytes;
}

std::string sample_of_today() {
    IndexWriter writer;
    for (const auto& entry : odd_entries()) EXPECT_TRUE(writer.add(entry));
    return writer.finish({{{1, 2}, 1 << 20}, {{3, 4}, 2 << 20}});
}

TEST_F(PackIndexTest, OldIndexesStayReadable) {
    const auto index = open(sample_v1());
    ASSERT_TRUE(index);
    EXPECT_EQ(index->extents(), (std::vector<Extent>{{{1, 2}, 1 << 20}, {{3, 4}, 2 << 20}}));
    const auto entries = odd_entries();
    std::size_t at = 0;
    ASSERT_TRUE(index->for_each([&](const Entry& entry) {
        EXPECT_TRUE(at < entries.size() && same(entry, entries[at])) << entry.path();
        ++at;
        return true;
    }));
    EXPECT_EQ(at, entries.size());
    EXPECT_EQ(sample_of_today(), sample_v1()) << "the same input gives the same bytes for good";
}

TEST_F(PackIndexTest, OtherVersionsAreRefused) {
    IndexWriter writer;
    ASSERT_TRUE(writer.add(directory_entry("", "")));
    auto bytes = writer.finish({});
    bytes[bytes.size() - 16] = 2;
    EXPECT_EQ(PackIndex::open(write(bytes)).error().code, EPROTONOSUPPORT);
}

}  // namespace index_test
}  // namespace tierfs::pack
