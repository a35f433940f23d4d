#include "backends/s3/readwrite/recent_copies.hpp"

#include <gtest/gtest.h>

#include "backends/s3/readwrite/known_names.hpp"
#include "config/base/time.hpp"

namespace tierfs::s3 {
namespace recent_copies_test {

using namespace std::chrono_literals;

class RecentCopiesTest : public testing::Test {
  protected:
    RecentCopy copy(const std::string& path, std::uint64_t size, const std::string& version = "\"1\"") {
        auto made = LocalCopies({"/tmp"}).make();
        EXPECT_TRUE(made);
        return {path, version, size, std::move(*made)};
    }
    RecentCopies recent_;
};

TEST_F(RecentCopiesTest, AreOfOneVersion) {
    recent_.add(copy("a", 100));
    EXPECT_TRUE(recent_.find("a", "\"1\""));
    EXPECT_FALSE(recent_.find("a", "\"2\"") || recent_.find("b", "\"1\""));
    recent_.copied("a", "\"1\"", "b", "\"2\"");
    EXPECT_TRUE(recent_.find("b", "\"2\""));
    EXPECT_FALSE(recent_.find("a", "\"1\""));
    recent_.lost("b", "\"1\"");
    EXPECT_TRUE(recent_.find("b", "\"2\""));
    recent_.lost("b", "\"2\"");
    EXPECT_FALSE(recent_.find("b", "\"2\""));
}

TEST_F(RecentCopiesTest, ThoseThatWereReadGoFirst) {
    const auto half = RecentCopies::kMostReadBytes / 2;
    for (const auto* name : {"a", "b", "c", "d"}) recent_.add(copy(name, half));
    recent_.was_read("d", "\"1\"", {0, 60});
    recent_.was_read("d", "\"1\"", {0, 60});  // what a tier asked for twice
    for (const auto* name : {"a", "b"}) recent_.was_read(name, "\"1\"", {0, half});
    EXPECT_TRUE(recent_.find("a", "\"1\"") && recent_.find("b", "\"1\"")) << "a tier may ask again";
    recent_.was_read("d", "\"1\"", {60, half});
    EXPECT_FALSE(recent_.find("a", "\"1\""));
    EXPECT_TRUE(recent_.find("d", "\"1\"") && recent_.find("b", "\"1\"") && recent_.find("c", "\"1\""));
    for (std::size_t n = 0; n + 3 < RecentCopies::kMost; ++n) recent_.add(copy(std::to_string(n), 1));
    recent_.add(copy("last", 1));
    EXPECT_FALSE(recent_.find("b", "\"1\""));
    EXPECT_TRUE(recent_.find("c", "\"1\"") && recent_.find("d", "\"1\""));
}

TEST_F(RecentCopiesTest, AreNotTakenForCopiesOfAnotherHostsVersion) {
    recent_.add(copy("a", 100));
    recent_.copied("a", "\"theirs\"", "a", "\"2\"");
    EXPECT_FALSE(recent_.find("a", "\"1\"") || recent_.find("a", "\"2\""));
}

TEST_F(RecentCopiesTest, TheOldestGo) {
    for (std::size_t n = 0; n <= RecentCopies::kMost; ++n) recent_.add(copy(std::to_string(n), 1));
    EXPECT_FALSE(recent_.find("0", "\"1\""));
    EXPECT_TRUE(recent_.find("1", "\"1\""));
    recent_.add(copy("large", RecentCopies::kMostBytes + 1));
    EXPECT_FALSE(recent_.find("large", "\"1\""));
    EXPECT_TRUE(recent_.find("1", "\"1\""));
    recent_.add(copy("1", RecentCopies::kMostBytes + 1));  // what is there is another one
    EXPECT_FALSE(recent_.find("1", "\"1\""));
}

TEST(KnownNamesTest, AnAnswerDoesNotReplaceOneThatWasAskedForLater) {
    KnownNames known(1h);
    const auto early = known.moment(1), late = known.moment(1);
    Facts there;
    there.kind = Facts::Kind::directory;
    known.put_answer(1, there, late);
    known.put_answer(1, Facts(), early);  // overtaken
    EXPECT_TRUE(known.get(1)->is_there());
    known.put(1, Facts());
    known.put_answer(1, there, late);  // asked before this mount removed it
    EXPECT_FALSE(known.get(1)->is_there());
}

TEST(KnownNamesTest, AnAnswerThatIsNotPutLeavesNothingOlder) {
    KnownNames known(1h);
    Facts there;
    there.kind = Facts::Kind::directory;
    known.put_answer(1, Facts(), known.moment(1));
    const auto asked = known.moment(1);
    known.put(2, Facts());
    known.put_answer(1, there, asked);  // another name has changed meanwhile
    EXPECT_TRUE(known.get(1)->is_there());
    const auto before = known.moment(1);
    known.clear();
    known.put_answer(1, Facts(), before);
    EXPECT_FALSE(known.get(1));
    known.put(1, Facts(), before.at - 1s);
    known.put_answer(1, there, before);  // nobody knows: neither answer is right for sure
    EXPECT_FALSE(known.get(1));
}

TEST(ListedNamesTest, AreBelievedForATimeAndUntilSomethingIsDropped) {
    using Shown = ListedNames::Shown;
    KnownNames known(1h);
    const auto now = KnownNames::Clock::now();
    known.put_listing(7, {{{"key", Shown::key}, {"both", Shown::prefix}}, now, known.drops()});
    EXPECT_EQ(known.shown(7, "key", now + 59min), Shown::key);
    EXPECT_EQ(known.shown(7, "both", now + 59min), Shown::prefix);
    EXPECT_EQ(known.shown(7, "none", now + 4s), Shown::absent);
    EXPECT_EQ(known.shown(7, "none", now + 5s), std::nullopt);
    EXPECT_EQ(known.shown(7, "key", now + 61min), std::nullopt);
    EXPECT_EQ(known.shown(8, "key", now), std::nullopt);
    const auto before = known.drops();
    known.drop(1);
    EXPECT_EQ(known.shown(7, "key", now), std::nullopt);
    known.put_listing(7, {{{"key", Shown::key}}, now, before});
    EXPECT_EQ(known.shown(7, "key", now), std::nullopt);
}

TEST(ListedNamesTest, AreRememberedForWhoCanAskNobody) {
    using Shown = ListedNames::Shown;
    KnownNames known(0ms);
    known.put_listing(7, {{{"key", Shown::key}}, KnownNames::Clock::now(), known.drops()});
    Facts made;
    made.kind = Facts::Kind::directory;
    known.put(7, "made", made);
    known.put(7, "key", Facts());
    EXPECT_EQ(known.shown(7, "none"), std::nullopt);
    EXPECT_EQ(known.shown_last(7, "none"), Shown::absent);
    EXPECT_FALSE(known.get(place_of(7, "made")));
    EXPECT_TRUE(known.last(place_of(7, "made"))->is_there());
    EXPECT_FALSE(known.last(place_of(7, "key"))->is_there());
    EXPECT_EQ(known.last(place_of(7, "none")), std::nullopt);
    const auto names = known.names_last(7);
    ASSERT_TRUE(names);
    EXPECT_EQ(*names, (std::unordered_map<std::string, Shown>{{"made", Shown::prefix}}));
    EXPECT_FALSE(known.names_last(8));
}

TEST(ListedNamesTest, NamesThatWereForgottenAreNotTakenForAbsent) {
    KnownNames known(1h);
    const auto now = KnownNames::Clock::now();
    known.put_listing(7, {{}, now - 1s, known.drops()});
    known.put_listing(8, {{}, now + 1h, known.drops()});
    Facts there;
    there.kind = Facts::Kind::file;
    known.put(place_of(7, "first"), there, now);
    for (Place place = 1; place <= KnownNames::kMost; ++place) known.put(place, there, now);
    EXPECT_FALSE(known.last(place_of(7, "first")));
    EXPECT_EQ(known.shown_last(7, "first"), std::nullopt);
    EXPECT_EQ(known.shown_last(8, "first"), ListedNames::Shown::absent);
}

TEST(ListedNamesTest, TooManyAreNone) {
    KnownNames known(1h);
    known.put_listing(7, {{}, KnownNames::Clock::now(), known.drops(), false});
    EXPECT_EQ(known.shown_last(7, "any"), std::nullopt);
    EXPECT_FALSE(known.names_last(7));
}

TEST(ListedNamesTest, OneThatWasBegunBeforeKnowsWhatWasMadeSince) {
    KnownNames known(1h);
    ListedNames listed{{{"gone", ListedNames::Shown::key}}, KnownNames::Clock::now(), known.drops()};
    Facts there;
    there.kind = Facts::Kind::file;
    known.put(7, "made", there);
    known.put(7, "gone", Facts());
    known.put(8, "elsewhere", there);
    known.put_listing(7, listed);
    EXPECT_EQ(*known.names_last(7),
              (std::unordered_map<std::string, ListedNames::Shown>{{"made", ListedNames::Shown::key}}));
    for (int number = 0; number < 2000; ++number) known.put(8, std::to_string(number), there);
    listed.names = {};
    known.put_listing(9, listed);
    EXPECT_FALSE(known.names_last(9)) << "too much was made since then";
}

TEST(ListedNamesTest, WhatIsDoubtfulIsTheLastThatWasKnown) {
    KnownNames known(1h);
    Facts there;
    there.kind = Facts::Kind::file;
    known.put(1, there);
    const auto asked = known.moment(1);
    known.put(1 + 256, there);  // counted with it
    known.put_answer(1, Facts(), asked);
    EXPECT_FALSE(known.get(1));
    EXPECT_FALSE(known.get_younger(1, 1h));
    EXPECT_TRUE(known.last(1)->is_there());
}

TEST(ListedNamesTest, AFileThatIsJustBegunIsAskedForAndNotTakenForAbsent) {
    KnownNames known(1h);
    const auto now = KnownNames::Clock::now();
    known.put_listing(7, {{}, now, known.drops()});
    Facts begun;
    begun.kind = Facts::Kind::file;
    begun.metadata.mtime_ns = wall_clock_ns();
    const auto place = place_of(7, "new");
    const auto answer = [&] { known.put_answer(place, begun, known.moment(place)); };
    answer();
    EXPECT_FALSE(known.get(place));
    EXPECT_EQ(known.shown(7, "new"), std::nullopt);
    EXPECT_EQ(known.shown(7, "none"), ListedNames::Shown::absent);
    begun.metadata.mtime_ns -= std::chrono::nanoseconds(2min).count();
    answer();
    EXPECT_TRUE(known.get(place));
    begun.metadata.mtime_ns = wall_clock_ns();
    begun.size = 1;
    answer();
    EXPECT_TRUE(known.get(place));
    begun.size = 0;
    known.put(place, begun);
    EXPECT_TRUE(known.get(place)) << "this mount's own";
}

}  // namespace recent_copies_test
}  // namespace tierfs::s3
