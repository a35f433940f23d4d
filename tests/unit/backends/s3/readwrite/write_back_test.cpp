#include "backends/s3/readwrite/write_back.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <random>
#include <thread>

#include "backends/s3/readwrite/draft.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/time.hpp"
#include "tests/unit/fs/stage/copy/temporary_folder.hpp"

namespace tierfs::s3 {
namespace write_back_test {

using stage::TemporaryFolder;

using namespace std::chrono_literals;
using Kind = WriteBack::Outcome::Kind;
using Expects = JournalRecord::Expects;

/// Entries without bytes: what is tested is when each is begun, and what it finds.
WriteBack::Entry entry(const std::string& path, std::uint64_t after, bool is_light = false) {
    WriteBack::Entry made;
    made.record.path = path;
    made.record.after = after;
    made.record.is_light = is_light;
    return made;
}

WriteBack::Entry removal(const std::string& path, std::uint64_t after) {
    auto made = entry(path, after);
    made.record.kind = JournalRecord::Kind::remove;
    made.record.expects = Expects::anything;
    return made;
}

class WriteBackTest : public testing::Test {
  protected:
    void begin(WriteBack::CarryOut carry_out, WriteBack::Waits waits = {}) {
        auto journal = Journal::open(folder_.path().string(), "source");
        ASSERT_TRUE(journal);
        back_ = std::make_unique<WriteBack>(std::move(*journal), std::move(carry_out), WriteBack::Settled(),
                                            std::move(waits));
    }
    /// Notes what is begun and in which state of the bucket.
    WriteBack::CarryOut noting() {
        return [this](const WriteBack::Entry& made) {
            const MutexLock lock(mutex_);
            begun_.push_back(made.record);
            WriteBack::Outcome outcome;
            outcome.version = "v" + std::to_string(made.record.sequence);
            return outcome;
        };
    }
    void drain() {
        const auto done = back_->wait_for(back_->hurry(), WriteBack::Clock::now() + 30s);
        ASSERT_TRUE(done) << done.error().message;
    }

    TemporaryFolder folder_;
    Mutex mutex_;
    std::vector<JournalRecord> begun_;
    std::unique_ptr<WriteBack> back_;
};

TEST_F(WriteBackTest, NothingIsBegunWhileTheBucketIsAway) {
    std::atomic<bool> is_away{true};
    begin(noting(), [&] { return is_away.load(); });
    const auto made = *back_->add(entry("a", 0));
    EXPECT_FALSE(back_->wait_for(back_->hurry(), WriteBack::Clock::now() + 2s));
    EXPECT_FALSE(back_->figures().error.empty());
    EXPECT_TRUE(back_->hold(made)) << "it can still get another name";
    back_->let_go(made);
    is_away = false;
    drain();
    EXPECT_EQ(begun_.size(), 1U);
    EXPECT_TRUE(back_->figures().error.empty());
}

TEST_F(WriteBackTest, NothingIsBegunBeforeItsTime) {
    begin(noting());
    const auto before = WriteBack::Clock::now();
    ASSERT_TRUE(back_->add(entry("a", 0)));
    ASSERT_TRUE(back_->wait_for(back_->last(), before + 30s));
    EXPECT_GE(WriteBack::Clock::now() - before, WriteBack::kLinger);
}

TEST_F(WriteBackTest, WhatComesNextAtAPathExpectsWhatWasLeftThere) {
    begin(noting());
    auto first = entry("a", 0);
    first.record.expects = Expects::version;
    first.record.version = "theirs";
    ASSERT_TRUE(back_->add(std::move(first)));
    ASSERT_TRUE(back_->add(entry("a", 1)));
    ASSERT_TRUE(back_->add(removal("a", 2)));
    ASSERT_TRUE(back_->add(entry("a", 3)));
    EXPECT_FALSE(back_->is_removed("a"));
    drain();
    ASSERT_EQ(begun_.size(), 4U);
    EXPECT_EQ(begun_[0].version, "theirs");
    EXPECT_EQ(begun_[1].expects, Expects::version);
    EXPECT_EQ(begun_[1].version, "v1");
    EXPECT_EQ(begun_[2].version, "v2");
    EXPECT_EQ(begun_[3].expects, Expects::nothing);
    EXPECT_EQ(back_->at("a"), nullptr);
}

TEST_F(WriteBackTest, AConflictIsNoneForAnotherFileAtItsPath) {
    begin([this](const WriteBack::Entry& made) {
        const MutexLock lock(mutex_);
        begun_.push_back(made.record);
        WriteBack::Outcome outcome;
        outcome.kind = Kind::conflict;
        return outcome;
    });
    ASSERT_TRUE(back_->add(entry("a", 0)));
    auto others = entry("a", 1);  // of another file, which has come to the name since then
    others.record.expects = Expects::anything;
    ASSERT_TRUE(back_->add(std::move(others)));
    drain();
    ASSERT_EQ(begun_.size(), 2U);
    EXPECT_EQ(begun_[1].expects, Expects::anything);
    EXPECT_EQ(back_->figures().conflicts, 2U);
}

TEST_F(WriteBackTest, OneThatIsHeldIsNotBegun) {
    begin(noting());
    const auto held = *back_->add(entry("a", 0));
    ASSERT_TRUE(back_->hold(held));
    EXPECT_FALSE(back_->hold(held));
    back_->hurry();
    EXPECT_EQ(back_->wait_for(held, WriteBack::Clock::now() + 50ms).error().code, ETIMEDOUT);
    EXPECT_TRUE(back_->stands_alone(held));
    const auto renamed = *back_->add(entry("b", 1), held);
    EXPECT_EQ(renamed->record.replaces, 1U);
    EXPECT_EQ(back_->at("a"), nullptr);
    drain();
    ASSERT_EQ(begun_.size(), 1U);
    EXPECT_EQ(begun_[0].path, "b");
    EXPECT_FALSE(back_->hold(renamed));
}

TEST_F(WriteBackTest, OneThatSomethingReliesOnByNowIsNotReplaced) {
    begin(noting());
    const auto first = *back_->add(entry("a", 0));
    ASSERT_TRUE(back_->hold(first));
    ASSERT_TRUE(back_->add(entry("manifest", 1)));
    const auto second = *back_->add(entry("a", 2), first);
    EXPECT_EQ(second->record.replaces, 0U);
    EXPECT_FALSE(back_->is_done_to(1));
    EXPECT_TRUE(back_->is_queued_below("a"));
    EXPECT_FALSE(back_->is_queued_below("man"));
    drain();
    ASSERT_EQ(begun_.size(), 3U);
    EXPECT_EQ(begun_[0].path, "a");
    EXPECT_EQ(begun_[1].path, "manifest");
}

/// Whoever knew of the version that was replaced waits for the one that has taken its place.
TEST_F(WriteBackTest, WhatReplacesIsWaitedForInItsPlace) {
    begin(noting());
    const auto first = *back_->add(entry("data", 0));
    auto manifest = entry("manifest", back_->last());
    ASSERT_TRUE(back_->hold(first));
    const auto second = *back_->add(entry("data", back_->last()), first);
    EXPECT_EQ(second->record.first, first->record.sequence);
    ASSERT_TRUE(back_->hold(second));
    ASSERT_TRUE(back_->add(std::move(manifest)));
    EXPECT_EQ(back_->figures().done_to, 0U);
    EXPECT_FALSE(back_->is_done_to(first->record.sequence));
    back_->hurry();
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(begun_.empty());
    back_->let_go(second);
    drain();
    ASSERT_EQ(begun_.size(), 2U);
    EXPECT_EQ(begun_[0].path, "data");
    EXPECT_EQ(begun_[1].path, "manifest");
}

/// What was closed twice and then synced waits for nothing of its own.
TEST_F(WriteBackTest, WhatReplacesMayBecomeHeavy) {
    begin(noting());
    const auto first = *back_->add(entry("a", 0, true));
    ASSERT_TRUE(back_->hold(first));
    const auto second = *back_->add(entry("a", back_->last(), true), first);
    ASSERT_TRUE(back_->hold(second));
    ASSERT_TRUE(back_->change(second, [](JournalRecord& record) { record.is_light = false; }));
    back_->let_go(second);
    ASSERT_TRUE(back_->add(entry("b", back_->last())));
    drain();
    EXPECT_TRUE(back_->is_done_to(back_->last()));
    EXPECT_EQ(begun_.size(), 2U);
}

/// One that gets another name after others came between them stands where it is now: the two would wait for each other.
TEST_F(WriteBackTest, WhatIsRenamedWaitsForWhatCameBetween) {
    begin(noting());
    const auto made = *back_->add(entry("data.tmp", 0));
    ASSERT_TRUE(back_->hold(made));
    ASSERT_TRUE(back_->add(entry("other", back_->last())));
    ASSERT_TRUE(back_->add(entry("data", back_->last()), made));
    drain();
    ASSERT_EQ(begun_.size(), 2U);
    EXPECT_EQ(begun_[0].path, "other");
    EXPECT_EQ(begun_[1].path, "data");
}

/// By the clock of file systems: what was acknowledged before the file was written to last.
TEST_F(WriteBackTest, WhatMayBeKnownAtATime) {
    begin(noting());
    EXPECT_EQ(back_->last_before(wall_clock_ns()), 0U);
    const auto before = wall_clock_ns() - 1'000'000'000;
    const auto first = *back_->add(entry("a", 0));
    ASSERT_TRUE(back_->hold(first));
    const auto second = *back_->add(entry("b", 0));
    ASSERT_TRUE(back_->hold(second));
    EXPECT_EQ(back_->last_before(before), 0U);
    EXPECT_EQ(back_->last_before(wall_clock_ns()), 2U);
}

TEST_F(WriteBackTest, OneThatIsWithdrawnIsNeverDone) {
    begin(noting());
    const auto old = *back_->add(removal("a", 0));
    const auto made = *back_->add(entry("a", 1));
    ASSERT_TRUE(back_->hold(made));
    EXPECT_FALSE(back_->stands_alone(made));
    EXPECT_TRUE(back_->is_new(made));
    ASSERT_TRUE(back_->withdraw(made));
    EXPECT_TRUE(back_->is_removed("a"));
    drain();
    ASSERT_EQ(begun_.size(), 1U);
    EXPECT_EQ(begun_[0].sequence, old->record.sequence);
}

TEST_F(WriteBackTest, WhatFailsIsTriedAgainAndHoldsUpWhatComesAfterIt) {
    std::atomic<int> failures{1};
    begin([&](const WriteBack::Entry& made) {
        const MutexLock lock(mutex_);
        begun_.push_back(made.record);
        WriteBack::Outcome outcome;
        if (made.record.path == "a" && failures-- > 0) {
            outcome.kind = Kind::again;
            outcome.error = Error{EIO, "the server is away"};
        }
        return outcome;
    });
    ASSERT_TRUE(back_->add(entry("a", 0)));
    ASSERT_TRUE(back_->add(entry("b", 1)));
    back_->hurry();
    while (back_->figures().error.empty()) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(back_->figures().error, "the server is away");
    // It may be at the bucket all the same, so that nothing is to be made of it here.
    EXPECT_FALSE(back_->hold(back_->at("a")));
    EXPECT_FALSE(back_->is_new(back_->at("a")));
    EXPECT_EQ(back_->figures().entries, 2U);
    drain();
    ASSERT_EQ(begun_.size(), 3U);
    EXPECT_EQ(begun_[2].path, "b");
}

#if TIERFS_TEST_POINTS
/// A record that is still there would be carried out once more after a power cut, over what came after it.
TEST_F(WriteBackTest, NothingComesAfterWhatTheJournalStillHas) {
    begin(noting());
    for (const auto* point : {"s3.journal.unlink", "s3.journal.sync", "s3.journal.rename"}) {
        begun_.clear();
        const auto first = *back_->add(entry("a", back_->last()));
        ASSERT_TRUE(back_->add(entry("a", back_->last())));
        ASSERT_TRUE(back_->add(entry("b", back_->last())));
        ASSERT_EQ(fault::configure(std::string(point) + ":1+:error=EIO", ""), "");
        back_->hurry();
        while (back_->figures().error.empty()) std::this_thread::sleep_for(1ms);
        EXPECT_EQ(back_->figures().entries, 3U);
        fault::configure("", "");
        drain();
        ASSERT_EQ(begun_.size(), 3U) << point;  // each once
        EXPECT_EQ(begun_[1].expects, Expects::version);
        EXPECT_EQ(begun_[1].version, "v" + std::to_string(first->record.sequence));
        EXPECT_EQ(begun_[2].path, "b");
    }
    back_.reset();
    begin(noting());
    EXPECT_TRUE(back_->journal().take_found().empty());
}

TEST_F(WriteBackTest, OneThatTheJournalKeepsIsNotWithdrawn) {
    begin(noting());
    const auto made = *back_->add(entry("a", 0));
    ASSERT_TRUE(back_->hold(made));
    ASSERT_EQ(fault::configure("s3.journal.unlink:1:error=EROFS", ""), "");
    const auto withdrawn = back_->withdraw(made);
    ASSERT_FALSE(withdrawn);
    EXPECT_EQ(withdrawn.error().code, EROFS);
    EXPECT_EQ(back_->at("a"), made);
    // It is not to go with the next one that does.
    ASSERT_TRUE(back_->journal().done(17));
    std::size_t records = 0;
    for (const auto& one : std::filesystem::directory_iterator(back_->journal().folder()))
        records += one.path().extension() == ".record" ? 1 : 0;
    EXPECT_EQ(records, 1U);
    back_->let_go(made);
    drain();
    EXPECT_EQ(begun_.size(), 1U);
}
#endif

TEST_F(WriteBackTest, WhatWasQueuedIsFoundByTheNext) {
    begin(noting());
    const auto held = *back_->add(removal("a", 0));
    ASSERT_TRUE(back_->hold(held));
    back_.reset();
    begin(noting());
    auto found = back_->journal().take_found();
    ASSERT_EQ(found.size(), 1U);
    WriteBack::Entry again;
    again.record = found[0].record;
    EXPECT_NEAR(static_cast<double>(again.record.made_ns), static_cast<double>(wall_clock_ns()), 60e9);
    again.record.made_ns -= 3'600'000'000'000;
    (void)back_->add_found(std::move(again));
    EXPECT_NEAR(back_->figures().oldest_s, 3600, 60);
    EXPECT_EQ(back_->last(), 1U);
    EXPECT_EQ((*back_->add(entry("b", 1)))->record.sequence, 2U);
    drain();
    EXPECT_EQ(begun_.size(), 2U);
}

/// Many entries from many threads: nothing is begun before what it may know of has been done, but for its like.
TEST_F(WriteBackTest, Model) {
    struct Begun {
        JournalRecord record;
        std::vector<std::uint64_t> done_before;
    };
    std::vector<Begun> log;
    std::vector<std::uint64_t> done;
    begin([&](const WriteBack::Entry& made) {
        {
            const MutexLock lock(mutex_);
            log.push_back({made.record, done});
        }
        std::this_thread::sleep_for(std::chrono::microseconds(made.record.sequence * 37 % 900));
        const MutexLock lock(mutex_);
        done.push_back(made.record.sequence);
        return WriteBack::Outcome{};
    });
    constexpr int kThreads = 4, kEach = 150;
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) {
        threads.emplace_back([&, number] {
            std::mt19937 chance(static_cast<unsigned>(number));
            for (int i = 0; i < kEach; ++i) {
                const auto path = "path" + std::to_string(chance() % 40) + "-" + std::to_string(number);
                const auto after = back_->last();
                auto made = chance() % 4 == 0 ? removal(path, after) : entry(path, after, chance() % 2 == 0);
                ASSERT_TRUE(back_->add(std::move(made)));
                if (chance() % 8 == 0) back_->hurry();
            }
        });
    }
    for (auto& thread : threads) thread.join();
    drain();
    ASSERT_EQ(log.size(), static_cast<std::size_t>(kThreads * kEach));
    std::map<std::uint64_t, JournalRecord> records;
    for (const auto& one : log) records[one.record.sequence] = one.record;
    for (const auto& one : log) {
        const std::set<std::uint64_t> before(one.done_before.begin(), one.done_before.end());
        for (const auto& [sequence, other] : records) {
            if (sequence >= one.record.sequence) break;
            const bool are_alike = other.kind == one.record.kind && other.is_light == one.record.is_light &&
                                   (one.record.is_light || one.record.kind == JournalRecord::Kind::remove);
            const bool must = other.path == one.record.path || (sequence <= one.record.after && !are_alike);
            ASSERT_TRUE(!must || before.contains(sequence))
                << one.record.sequence << " was begun before " << sequence;
        }
    }
    EXPECT_EQ(back_->size(), 0U);
    EXPECT_EQ(back_->figures().done_to, back_->last());
}

}  // namespace write_back_test
}  // namespace tierfs::s3
