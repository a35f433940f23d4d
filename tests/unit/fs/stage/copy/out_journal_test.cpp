#include "fs/stage/copy/out_journal.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tierfs::stage {
namespace out_journal_test {

namespace fs = std::filesystem;

class OutJournalTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "tierfs-journal-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        base_ = pattern;
    }
    void TearDown() override { fs::remove_all(base_); }

    [[nodiscard]] BookFolder state() const { return BookFolder::at(base_ / "state", 0700).value(); }
    Result<OutJournal> open(const std::string& destination = "s3://e/b/") {
        return OutJournal::open(state(), destination);
    }
    [[nodiscard]] fs::path file() const {
        for (const auto& entry : fs::directory_iterator(base_ / "state"))
            if (entry.path().extension() == ".jsonl") return entry.path();
        return {};
    }

    static OutDone done_of(const std::string& path) {
        OutDone done;
        done.record.path = path;
        done.record.size = 3;
        done.record.crc32c = {7};
        done.version = "\"v\"";
        done.checksum = "c";
        return done;
    }

    fs::path base_;
    const OutPending pending_{"big\xff", "1:2:3:4", "id/+", 100, 50};
};

TEST_F(OutJournalTest, RemembersWhatIsUnfinishedAndWhatIsDone) {
    {
        const auto journal = open();
        ASSERT_TRUE(journal) << journal.error().message;
        ASSERT_TRUE(journal->intend("big\xff", 5));
        ASSERT_TRUE(journal->began(pending_));
        ASSERT_TRUE(journal->intend("other", 6));
        ASSERT_TRUE(journal->intend("over", 7));
        ASSERT_TRUE(journal->ended("over"));
        ASSERT_TRUE(journal->finished(done_of("small")));
        ASSERT_TRUE(journal->finished(done_of("gone")));
        ASSERT_TRUE(journal->forgotten("gone"));
    }
    for (int i = 0; i < 2; ++i) {  // the second time from the rewritten one
        const auto journal = open();
        ASSERT_TRUE(journal) << journal.error().message;
        ASSERT_EQ(journal->pending().size(), 1U);
        EXPECT_EQ(journal->pending().at("big\xff"), pending_);
        EXPECT_EQ(journal->intents(), (std::map<std::string, std::int64_t>{{"other", 6}}));
        ASSERT_EQ(journal->done().size(), 1U);
        EXPECT_EQ(journal->done().at("small"), done_of("small"));
        EXPECT_EQ(journal->damaged_lines(), 0U);
    }
    EXPECT_EQ(OutJournal::peek(state(), "s3://e/b/")->done().size(), 1U);
    EXPECT_TRUE(open("s3://e/c/")->done().empty());
}

TEST_F(OutJournalTest, ATornLineAndDamagedOnesAreLeftOut) {
    ASSERT_TRUE(open()->finished(done_of("small")));
    std::ofstream(file(), std::ios::app | std::ios::binary)
        << "{\"what\":\"done\",\"path\":\"a\"}\n{\"what\":\"upload\",\"path\":\"a\",\"id\":\"x\"}\n"
        << "{\"what\":\"upload\",\"path\":\"../"
           "x\",\"source_version\":\"\",\"id\":\"\",\"size\":1,\"part_size\":1}\n"
        << "[]\n{\"what\":\"unknown\",\"path\":\"x\"}\n{\"what\":\"ended\",\"path\":\"sma";
    const auto journal = open();
    ASSERT_TRUE(journal) << journal.error().message;
    EXPECT_EQ(journal->damaged_lines(), 5U);
    EXPECT_EQ(journal->done().size(), 1U);
    EXPECT_TRUE(journal->pending().empty());
}

TEST_F(OutJournalTest, AForeignFileIsRefused) {
    ASSERT_TRUE(open());
    const auto path = file();
    std::ofstream(path, std::ios::trunc) << "something else\n";
    const auto journal = open();
    ASSERT_FALSE(journal);
    EXPECT_EQ(journal.error().code, EINVAL);
    EXPECT_NE(journal.error().message.find(path.string() + ":1"), std::string::npos);
    std::ifstream same(path);
    std::string line;
    std::getline(same, line);
    EXPECT_EQ(line, "something else");
}

TEST_F(OutJournalTest, HasOneOwner) {
    const auto first = open();
    ASSERT_TRUE(first);
    EXPECT_EQ(open().error().code, EBUSY);
    EXPECT_TRUE(open("elsewhere"));
}

}  // namespace out_journal_test
}  // namespace tierfs::stage
