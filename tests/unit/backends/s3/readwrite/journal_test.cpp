#include "backends/s3/readwrite/journal.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/unit/fs/stage/copy/temporary_folder.hpp"

namespace tierfs::s3 {
namespace journal_test {

using stage::TemporaryFolder;

namespace fs = std::filesystem;

constexpr const char* kIdentity = "s3:bucket/prefix";

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

JournalRecord put_record(std::uint64_t sequence, const std::string& path, const LocalCopy& copy) {
    JournalRecord record;
    record.sequence = sequence;
    record.path = path;
    record.expects = JournalRecord::Expects::version;
    record.version = "\"0123\"";
    record.after = sequence - 1;
    record.is_light = true;
    record.size = 5;
    record.bytes = copy.name();
    record.metadata.mode = S_IFREG | 0640;
    record.metadata.uid = 7;
    record.metadata.gid = 8;
    record.metadata.mtime_ns = 1234567890123456789;
    record.metadata.ctime_ns = record.metadata.atime_ns = -5;
    record.metadata.xattrs["user.a"] = std::string("\0\xff", 2);
    record.metadata.kept = {{"content-type", "text/plain"}, {"x-amz-meta-other", "value"}};
    record.metadata.tags = "a=b";
    return record;
}

void expect_equal(const JournalRecord& one, const JournalRecord& other) {
    EXPECT_EQ(record_text(one), record_text(other));
    EXPECT_EQ(one.metadata, other.metadata);
    EXPECT_EQ(one.metadata.tags, other.metadata.tags);
}

class JournalTest : public testing::Test {
  protected:
    std::unique_ptr<Journal> open() {
        auto journal = Journal::open(folder_.path().string(), kIdentity);
        EXPECT_TRUE(journal) << (journal ? "" : journal.error().message);
        return journal ? std::move(*journal) : nullptr;
    }
    static std::vector<std::string> names(const Journal& journal) {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(journal.folder())) {
            const auto name = entry.path().filename().string();
            if (name.find('.') != std::string::npos) names.push_back(name);
        }
        std::sort(names.begin(), names.end());
        return names;
    }
    static std::shared_ptr<LocalCopy> add(Journal& journal, JournalRecord& record, std::uint64_t sequence,
                                          const std::string& path) {
        auto copy = *journal.make();
        EXPECT_TRUE(copy->write(bytes_of("hello"), 0));
        record = put_record(sequence, path, *copy);
        EXPECT_TRUE(journal.add(record, copy.get()));
        return copy;
    }

    TemporaryFolder folder_;
};

TEST_F(JournalTest, WhatWasAddedIsFoundAgainInOrder) {
    JournalRecord first, second, removal;
    {
        auto journal = open();
        (void)add(*journal, second, 12, "b/\xff\n");
        (void)add(*journal, first, 3, "a");
        removal.sequence = 13;
        removal.kind = JournalRecord::Kind::remove;
        removal.path = "gone";
        removal.expects = JournalRecord::Expects::anything;
        ASSERT_TRUE(journal->add(removal, nullptr));
    }
    auto journal = open();
    EXPECT_EQ(journal->last_found(), 13U);
    const auto found = journal->take_found();
    ASSERT_EQ(found.size(), 3U);
    expect_equal(found[0].record, first);
    expect_equal(found[1].record, second);
    expect_equal(found[2].record, removal);
    EXPECT_EQ(found[2].copy, nullptr);
    std::string text(5, '\0');
    ASSERT_TRUE(found[0].copy->read(std::as_writable_bytes(std::span(text)), 0));
    EXPECT_EQ(text, "hello");
}

TEST_F(JournalTest, WhatWasDoneIsGone) {
    auto journal = open();
    JournalRecord record;
    auto copy = add(*journal, record, 1, "a");
    EXPECT_EQ(names(*journal).size(), 2U);
    journal->done(1);
    copy->let_go();
    copy.reset();
    EXPECT_TRUE(names(*journal).empty());
}

TEST_F(JournalTest, BytesThatWereNeverAcknowledgedAreRemoved) {
    {
        auto journal = open();
        auto copy = *journal->make();
        ASSERT_TRUE(copy->write(bytes_of("hello"), 0));
        copy->keep();  // as if the process had died
    }
    auto journal = open();
    EXPECT_TRUE(names(*journal).empty());
}

TEST_F(JournalTest, OfARecordAndWhatItReplacesOnlyTheFirstIsFound) {
    {
        auto journal = open();
        JournalRecord before, later;
        auto copy = add(*journal, before, 1, "old name");
        later = put_record(2, "new name", *copy);
        ASSERT_TRUE(journal->add(later, copy.get()));
        auto replacing = put_record(3, "last name", *copy);
        replacing.replaces = 2;
        ASSERT_TRUE(journal->add(replacing, copy.get()));
        journal->done(1);
        later.replaces = 0;
        ASSERT_TRUE(journal->change(later));  // as if the process had died before it removed this one
    }
    auto journal = open();
    const auto found = journal->take_found();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].record.path, "last name");
    EXPECT_EQ(names(*journal).size(), 2U);
}

TEST_F(JournalTest, ADamagedRecordIsPutAsideWithItsBytes) {
    std::string name;
    {
        auto journal = open();
        JournalRecord record, other;
        (void)add(*journal, record, 1, "a");
        (void)add(*journal, other, 2, "b");
        name = journal->folder() + "/0000000000000001.record";
        std::ofstream(name) << "{\"sequence\": 1";
    }
    for (int start = 0; start < 2; ++start) {
        auto journal = open();
        EXPECT_EQ(journal->take_found().size(), 1U);
        EXPECT_FALSE(fs::exists(name));
        EXPECT_EQ(names(*journal).size(), 4U);
        EXPECT_TRUE(fs::exists(journal->folder() + "/0000000000000001.damaged"));
    }
}

TEST_F(JournalTest, BytesThatAreCutShortAreNoFile) {
    {
        auto journal = open();
        JournalRecord record;
        (void)add(*journal, record, 1, "a");
        fs::resize_file(journal->folder() + "/" + record.bytes, 3);
    }
    EXPECT_TRUE(open()->take_found().empty());
}

TEST_F(JournalTest, WhatCannotBeReadNowIsNotPutAside) {
    {
        auto journal = open();
        JournalRecord record;
        (void)add(*journal, record, 1, "a");
        fs::remove(journal->folder() + "/" + record.bytes);
        fs::create_symlink("elsewhere", journal->folder() + "/" + record.bytes);
    }
    EXPECT_FALSE(Journal::open(folder_.path().string(), kIdentity));
    EXPECT_EQ(Journal::count(folder_.path().string(), kIdentity), 1U);
    EXPECT_EQ(Journal::count(folder_.path().string(), "s3:another"), 0U);
}

TEST_F(JournalTest, LiesInAFolderWhoseParentIsThere) {
    const auto missing = folder_.path() / "no device/journal";
    const auto opened = Journal::open(missing.string(), kIdentity);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ENOENT);
    fs::permissions(folder_.path(), fs::perms::all);
    EXPECT_TRUE(open());
    EXPECT_EQ(fs::status(folder_.path()).permissions(), fs::perms::all);
}

TEST_F(JournalTest, IsOfOneMountAndOneSource) {
    auto journal = open();
    const auto again = Journal::open(folder_.path().string(), kIdentity);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, EBUSY);
    const auto other = Journal::open(folder_.path().string(), "s3:bucket/other");
    ASSERT_TRUE(other);
    EXPECT_NE((*other)->folder(), journal->folder());
}

TEST_F(JournalTest, ADirectoryIsFoundAgainAsOne) {
    auto journal = open();
    const auto copy = *journal->make();
    auto record = put_record(1, "run/step-1/", *copy);
    record.size = 0;
    record.metadata.mode = S_IFDIR | 0750;
    const auto found = parse_record(record_text(record));
    ASSERT_TRUE(found) << found.error().message;
    expect_equal(*found, record);
    record.path = "/";
    EXPECT_FALSE(parse_record(record_text(record)));
    record.path = "run/";
    record.kind = JournalRecord::Kind::remove;
    EXPECT_FALSE(parse_record(record_text(record)));
}

TEST_F(JournalTest, NoTextIsTakenForARecordThatIsNone) {
    auto journal = open();
    JournalRecord record;
    auto copy = add(*journal, record, 1, "a");
    const auto good = record_text(record);
    ASSERT_TRUE(parse_record(good));
    std::mt19937 chance(7);
    for (int round = 0; round < 3000; ++round) {
        auto text = good.substr(0, chance() % (good.size() + 1));
        for (auto changes = chance() % 4; changes > 0 && !text.empty(); --changes)
            text[chance() % text.size()] = static_cast<char>(chance());
        const auto parsed = parse_record(text);
        if (parsed) EXPECT_FALSE(parsed->path.empty());
    }
    for (const char* text : {"", "[]", "{}", "null", "{\"sequence\":0}"})
        EXPECT_FALSE(parse_record(text)) << text;
}

}  // namespace journal_test
}  // namespace tierfs::s3
