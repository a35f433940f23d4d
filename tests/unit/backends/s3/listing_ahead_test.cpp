#include "backends/s3/listing_ahead.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <random>
#include <set>
#include <thread>

namespace tierfs::s3 {
namespace listing_ahead_test {

constexpr std::size_t kPage = 10;

/// A bucket whose answers take a moment: all that is asked meanwhile is answered together, in another order.
class Bucket {
  public:
    explicit Bucket(std::vector<std::string> keys)
        : keys_(keys.begin(), keys.end()), server_([this] { serve(); }) {}
    ~Bucket() {
        {
            const MutexLock lock(mutex_);
            is_over_ = true;
        }
        asked_.notify_all();
        server_.join();
    }
    Bucket(const Bucket&) = delete;
    Bucket& operator=(const Bucket&) = delete;

    ListingAhead::Ask ask() {
        return [this](const ListingAhead::Question& question, std::function<void(Result<Listing>)> done) {
            {
                const MutexLock lock(mutex_);
                ++requests;
                waiting_.push_back([this, question, done = std::move(done)] { done(answer(question)); });
            }
            asked_.notify_all();
        };
    }

    std::atomic<unsigned> requests = 0, rounds = 0;
    bool ignores = false;     ///< start-after
    bool has_gaps = false;    ///< an empty page comes before each with keys
    bool is_endless = false;  ///< empty pages, and each has another token
    std::uint64_t text = 0;   ///< bytes of each page
    std::string fails_at;     ///< questions that begin there or later fail
    int failures = 1000000;   ///< so many

  private:
    void serve() {
        MutexLock lock(mutex_);
        for (;;) {
            while (waiting_.empty() && !is_over_) lock.wait(asked_);
            if (waiting_.empty()) return;
            lock.unlock();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            lock.lock();
            auto now = std::exchange(waiting_, {});
            lock.unlock();
            ++rounds;
            std::shuffle(now.begin(), now.end(), random_);
            for (auto& one : now) one();
            lock.lock();
        }
    }
    Result<Listing> answer(const ListingAhead::Question& question) {
        if (!fails_at.empty() && question.after >= fails_at && failures-- > 0) return fail(EIO, "refused");
        Listing page;
        page.text_bytes = text;
        if (is_endless || (has_gaps && !question.token.starts_with("g:"))) {
            page.next_token = (is_endless ? "e" + std::to_string(requests) : "g:" + question.after);
            return page;
        }
        const bool begins_anew = ignores && !question.token.starts_with("t:");
        const std::string after = begins_anew ? "" : question.after;
        std::set<std::string> shown;
        auto at = keys_.upper_bound(after);
        for (; at != keys_.end() && shown.size() < kPage; ++at) {
            const auto slash = at->find('/');
            if (slash != std::string::npos) {
                const auto prefix = at->substr(0, slash + 1);
                if (shown.insert(prefix).second) page.prefixes.push_back(prefix);
            } else {
                shown.insert(*at);
                ListedObject object;
                object.key = *at;
                page.objects.push_back(object);
            }
        }
        if (at != keys_.end()) page.next_token = "t:" + end_of(page);
        return page;
    }

    const std::set<std::string> keys_;
    std::mt19937 random_{1};
    Mutex mutex_;
    std::condition_variable asked_;
    std::vector<std::function<void()>> waiting_ TIERFS_GUARDED_BY(mutex_);
    bool is_over_ TIERFS_GUARDED_BY(mutex_) = false;
    std::thread server_;  ///< the last: it uses the others
};

/// BEFORE number AFTER, with so many digits at least.
std::vector<std::string> numbered(const std::string& before, unsigned digits, int count,
                                  const std::string& after = "") {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
        auto number = std::to_string(i);
        if (number.size() < digits) number.insert(0, digits - number.size(), '0');
        names.push_back(before + number + after);
    }
    return names;
}

/// What the pages give, in order; names of directories have their slash.
struct Outcome {
    std::vector<std::string> names;
    std::optional<Error> error;
};
using Shared = ListingAhead::Shared;
Outcome list(Bucket& bucket, const std::shared_ptr<Shared>& shared = std::make_shared<Shared>()) {
    Outcome outcome;
    const auto listing = std::make_shared<ListingAhead>("", "", "", shared, bucket.ask());
    for (;;) {
        const auto page = listing->next();
        if (!page) {
            outcome.error = page.error();
            break;
        }
        std::vector<std::string> names = page->listing.prefixes;
        for (const auto& object : page->listing.objects) names.push_back(object.key);
        std::sort(names.begin(), names.end());
        outcome.names.insert(outcome.names.end(), names.begin(), names.end());
        if (page->listing.next_token.empty()) break;
    }
    return outcome;
}

struct Case {
    const char* name;
    std::vector<std::string> keys;
    unsigned least_gain;  ///< sequential pages for each round
};
void PrintTo(const Case& one, std::ostream* out) {
    *out << one.name;
}

std::vector<std::string> hashes(int count) {
    std::mt19937_64 random(7);
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
        std::array<char, 64> text{};
        std::snprintf(text.data(), text.size(), "%016llx.jpg", static_cast<unsigned long long>(random()));
        names.emplace_back(text.data());
    }
    return names;
}

std::vector<std::string> together(std::vector<std::string> one, const std::vector<std::string>& other) {
    one.insert(one.end(), other.begin(), other.end());
    return one;
}

class ListingAheadTest : public testing::TestWithParam<Case> {};

TEST_P(ListingAheadTest, GivesEachNameOnceAndInOrder) {
    const auto& keys = GetParam().keys;
    std::set<std::string> expected;
    for (const auto& key : keys) expected.insert(key.substr(0, std::min(key.find('/'), key.size() - 1) + 1));
    for (const bool has_gaps : {false, true}) {
        Bucket bucket(keys);
        bucket.has_gaps = has_gaps;
        const auto outcome = list(bucket);
        ASSERT_FALSE(outcome.error) << outcome.error->message;
        EXPECT_EQ(outcome.names, std::vector<std::string>(expected.begin(), expected.end()));
        const auto pages = (expected.size() + kPage - 1) / kPage;
        if (!has_gaps) {
            EXPECT_LE(bucket.rounds * GetParam().least_gain, pages) << bucket.requests << " requests";
            EXPECT_LE(bucket.requests, pages * 3 / 2 + 15) << pages << " pages";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Names, ListingAheadTest,
    testing::Values(
        Case{"none", {}, 0}, Case{"one", {"a"}, 0}, Case{"few", numbered("f", 4, 35), 0},
        Case{"numbered", numbered("file", 6, 2000, ".jpg"), 8},
        Case{"not filled up", numbered("file", 1, 2000), 5}, Case{"hashes", hashes(2000), 6},
        Case{"two families", together(numbered("cat.", 1, 1000, ".jpg"), numbered("dog.", 1, 1000, ".jpg")),
             4},
        Case{"directories", numbered("d", 5, 2000, "/file"), 6},
        Case{"directories beside files", together(numbered("", 4, 500, "/file"), numbered("", 4, 500)), 2},
        Case{"odd characters", together(numbered("\xC3\xA9t\xC3\xA9 ", 4, 300), numbered("~", 1, 30)), 0}),
    [](const auto& info) {
        std::string name = info.param.name;
        std::replace(name.begin(), name.end(), ' ', '_');
        return name;
    });

TEST(ListingAheadLimits, TheEndOfAShortListingIsTheEndOfWhatWasGuessed) {
    Bucket bucket(numbered("f", 4, 35));
    EXPECT_EQ(list(bucket).names.size(), 35U);
    EXPECT_LE(bucket.requests, 10U) << "four pages";
    EXPECT_LE(bucket.rounds, 4U);
}

TEST(ListingAheadLimits, FewPagesAreHeld) {
    Bucket bucket(numbered("file", 6, 2000));
    const auto shared = std::make_shared<Shared>();
    shared->bytes = 8 * ListingAhead::kUsualPage;
    {
        const auto listing = std::make_shared<ListingAhead>("", "", "", shared, bucket.ask());
        while (bucket.requests < 6) ASSERT_TRUE(listing->next());
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        const unsigned before = bucket.requests;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_EQ(bucket.requests, before) << "nobody takes what is there";
        EXPECT_LT(before, 40U);
        EXPECT_GT(shared->used, 0U);
        listing->abandon();
    }
    EXPECT_EQ(shared->used, 0U);
}

TEST(ListingAheadLimits, ManyListingsThatNobodyWaitsForHoldFewPagesTogether) {
    Bucket bucket(numbered("file", 6, 2000));
    bucket.text = 4 << 20;
    const auto shared = std::make_shared<Shared>();
    shared->bytes = 3 * bucket.text;
    std::vector<std::shared_ptr<ListingAhead>> listings;
    for (int i = 0; i < 20; ++i) {
        listings.push_back(std::make_shared<ListingAhead>("", "", "", shared, bucket.ask()));
        ASSERT_TRUE(listings.back()->next());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_LE(shared->used, shared->bytes);
    EXPECT_LE(bucket.requests, 20U + 4U);
    for (const auto& listing : listings) {
        EXPECT_TRUE(listing->next());
        listing->abandon();
    }
}

TEST(ListingAheadLimits, AServerThatIgnoresWhereToBeginIsWalkedByItsTokens) {
    for (const auto& keys : {numbered("file", 6, 300), numbered("d", 5, 300, "/file")}) {
        Bucket bucket(keys);
        bucket.ignores = true;
        const auto shared = std::make_shared<Shared>();
        const auto outcome = list(bucket, shared);
        ASSERT_FALSE(outcome.error) << outcome.error->message;
        EXPECT_EQ(outcome.names.size(), 300U);
        EXPECT_EQ(shared->begins, Shared::Begins::elsewhere);
        EXPECT_LE(bucket.requests, 32U);
        EXPECT_EQ(list(bucket, shared).names.size(), 300U);
    }
}

TEST(ListingAheadLimits, AnErrorComesInItsTurn) {
    Bucket bucket(numbered("file", 6, 2000));
    bucket.fails_at = "file0010";
    const auto outcome = list(bucket);
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->code, EIO);
    EXPECT_GE(outcome.names.size(), 1000U - kPage) << "what came before it was given";
    EXPECT_TRUE(std::is_sorted(outcome.names.begin(), outcome.names.end()));
}

TEST(ListingAheadLimits, AnErrorOfWhatNobodyWaitedForIsForgotten) {
    Bucket bucket(numbered("file", 6, 2000));
    bucket.fails_at = "file0010";
    bucket.failures = 3;
    const auto outcome = list(bucket);
    ASSERT_FALSE(outcome.error) << outcome.error->message;
    EXPECT_EQ(outcome.names.size(), 2000U);
}

TEST(ListingAheadLimits, PagesWithoutAKeyEndAtSomeTime) {
    Bucket bucket(numbered("file", 6, 20));
    bucket.is_endless = true;
    const auto outcome = list(bucket);
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->code, EIO);
}

TEST(ListingsAheadTest, TheOneThatWaitedLongestGivesWay) {
    ListingsAhead listings;
    Bucket bucket({});
    for (std::size_t i = 0; i <= ListingsAhead::kMost; ++i)
        listings.put("path", std::to_string(i),
                     std::make_shared<ListingAhead>("", "", "", std::make_shared<Shared>(), bucket.ask()));
    EXPECT_EQ(listings.take("path", "0"), nullptr);
    EXPECT_EQ(listings.take("other", "1"), nullptr);
    EXPECT_NE(listings.take("path", "1"), nullptr);
    EXPECT_EQ(listings.take("path", "1"), nullptr) << "it is another's";
}

}  // namespace listing_ahead_test
}  // namespace tierfs::s3
