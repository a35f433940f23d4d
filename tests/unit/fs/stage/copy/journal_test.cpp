#include "fs/stage/copy/journal.hpp"

#include <gtest/gtest.h>

#include "fs/stage/copy/destination.hpp"
#include "tests/unit/fs/stage/copy/temporary_folder.hpp"

namespace tierfs::stage {

namespace journal_test {

constexpr std::uint32_t kPiece = 4 << 20;

TEST(StageJournal, SaysWhatWasDone) {
    const TemporaryFolder folder;
    const std::string one = part_name("x", "s", "v1");
    const std::string two = part_name("y", "s", "v1");
    EXPECT_NE(one, part_name("x", "s", "v2"));
    ManifestRecord record;
    record.path = "y";
    {
        const auto journal = Journal::open(folder.books(), "j");
        ASSERT_TRUE(journal) << journal.error().message;
        ASSERT_TRUE(journal->begin(one, {"x", "v1", 10 * kPiece, {}}));
        ASSERT_TRUE(journal->piece(one, {kPiece, kPiece, 7}));
        ASSERT_TRUE(journal->piece(one, {0, kPiece, 0xffffffff}));
        ASSERT_TRUE(journal->begin(two, {"y", "v1", 0, {}}));
        ASSERT_TRUE(journal->whole(two, record));
        ASSERT_TRUE(journal->sync());
    }
    JournalContents contents;
    ASSERT_TRUE(contents.load(folder.books(), "j"));
    EXPECT_EQ(contents.damaged_lines, 0U);
    ASSERT_EQ(contents.parts.size(), 1U);
    EXPECT_EQ(contents.parts.at(one).pieces.size(), 2U);
    EXPECT_EQ(contents.parts.at(one).pieces.at(0), (PieceMark{0, kPiece, 0xffffffff}));
    EXPECT_EQ(contents.whole.at(two), record);
}

TEST(StageJournal, TornAndForgedLinesAreLeftOut) {
    const TemporaryFolder folder;
    const std::string part = part_name("x", "s", "v");
    {
        const auto journal = Journal::open(folder.books(), "j");
        ASSERT_TRUE(journal->begin(part, {"x", "v", 100, {}}));
    }
    const std::string begun = folder.read("j");
    const std::string head = R"({"part":")" + part + R"(",)";
    const std::string forged =
        head + R"("offset":50,"length":51,"crc32c":"00000000"})" + "\n" +  // beyond the end
        head + R"("offset":-1,"length":5,"crc32c":"00000000"})" + "\n" + head +
        R"("offset":0,"length":0,"crc32c":"00000000"})" + "\n" +
        R"({"part":"../../etc","path":"x","source_version":"","size":1})" + "\n" +
        R"({"part":"0/ab.part","offset":0,"length":1,"crc32c":"00000000"})" + "\n" + "junk\n";
    folder.write("j", begun + forged + head + R"("offset":0,"len)");
    JournalContents contents;
    ASSERT_TRUE(contents.load(folder.books(), "j"));
    EXPECT_EQ(contents.damaged_lines, 6U);
    EXPECT_TRUE(contents.parts.at(part).pieces.empty());
    {  // the torn line does not swallow the next one
        const auto journal = Journal::open(folder.books(), "j");
        ASSERT_TRUE(journal->piece(part, {0, 100, 1}));
    }
    JournalContents again;
    ASSERT_TRUE(again.load(folder.books(), "j"));
    EXPECT_EQ(again.parts.at(part).pieces.size(), 1U);
}

TEST(StageJournal, AbsentIsEmptyAndUnreadableIsAnError) {
    const TemporaryFolder folder;
    JournalContents contents;
    EXPECT_TRUE(contents.load(folder.books(), "none"));
    EXPECT_TRUE(contents.parts.empty());
    EXPECT_FALSE(contents.load(folder.books(), "."));
}

}  // namespace journal_test
}  // namespace tierfs::stage
