#include "config/dataset_rules.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace dataset_rules_test {

using std::chrono::hours;

DatasetRule rule(std::initializer_list<std::pair<const char*, const char*>> keys) {
    DatasetRule made;
    for (const auto& [key, value] : keys) {
        const auto problem = made.set(key, value);
        EXPECT_FALSE(problem) << *problem;
    }
    made.place = "f:1";
    return made;
}

FileFacts size_of(std::uint64_t bytes) {
    FileFacts facts;
    facts.size = bytes;
    return facts;
}

TEST(ConfigDatasetRules, FirstMatchWinsAndTheLastRuleIsForTheRest) {
    const DatasetRules rules({rule({{"match", "/train/**"}, {"class", "epoch"}, {"size", "< 1M"}}),
                              rule({{"match", "/train/**"}, {"class", "stream"}}),
                              rule({{"match", "**/*.idx"}, {"class", "pin"}})},
                             DatasetClass::hot);
    ASSERT_EQ(rules.count(), 4U);
    EXPECT_EQ(rules.find("train/a", size_of(100)), 0U);
    EXPECT_EQ(rules.find("train/a", size_of(1 << 20)), 1U);
    EXPECT_EQ(rules.find("train/a.idx", size_of(1 << 20)), 1U);
    EXPECT_EQ(rules.find("val/a.idx", size_of(1)), 2U);
    EXPECT_EQ(rules.find("val/a", size_of(1)), 3U);
    EXPECT_EQ(rules.at(3).match, "/**");
    EXPECT_EQ(rules.at(3).dataset_class, DatasetClass::hot);
    EXPECT_FALSE(rules.depends_on_use());
}

TEST(ConfigDatasetRules, ImmutableIsSaidOfFilesAndOfAllThatIsInADirectory) {
    const DatasetRules rules({rule({{"match", "/a/tmp/**"}}), rule({{"match", "/a/x*"}}),
                              rule({{"match", "/a/**"}, {"immutable", "true"}}),
                              rule({{"match", "**/*.idx"}, {"immutable", "true"}, {"size", "> 1"}}),
                              rule({{"match", "/b/**"}, {"immutable", "true"}, {"size", "> 1"}})},
                             DatasetClass::automatic);
    EXPECT_TRUE(rules.has_immutable());
    for (const char* inside : {"a", "a/b", "a/x1", "a/b/tmp"})
        EXPECT_TRUE(rules.is_immutable_inside(inside)) << inside;
    for (const char* not_so : {"", "a/tmp", "a/tmp/b", "b", "c", "aa"})
        EXPECT_FALSE(rules.is_immutable_inside(not_so)) << not_so;
    EXPECT_TRUE(rules.is_immutable("a/f", size_of(0)));
    EXPECT_FALSE(rules.is_immutable("a/x1", size_of(0)));
    EXPECT_TRUE(rules.is_immutable("c/y.idx", size_of(2)));
    EXPECT_FALSE(rules.is_immutable("c/y.idx", size_of(1)));
    EXPECT_FALSE(rules.is_immutable("c/y.idx", {}));
    EXPECT_FALSE(DatasetRules({rule({{"match", "/a/**"}, {"immutable", "false"}})}, DatasetClass::automatic)
                     .has_immutable());
    DatasetRule wrong;
    EXPECT_EQ(wrong.set("immutable", "maybe"), "immutable: found 'maybe'; allowed: true, false");
    EXPECT_TRUE(DatasetRules({rule({{"match", "/**"}, {"immutable", "true"}})}, DatasetClass::automatic)
                    .is_immutable_inside(""));
}

TEST(ConfigDatasetRules, WhatIsNotKnownHoldsNoCondition) {
    const DatasetRules rules({rule({{"match", "/**"}, {"reads", ">= 0"}})}, DatasetClass::automatic);
    EXPECT_TRUE(rules.depends_on_use());
    EXPECT_EQ(rules.find("a", {}), 1U);
    FileFacts facts;
    facts.reads = 0;
    EXPECT_EQ(rules.find("a", facts), 0U);
}

TEST(ConfigDatasetRules, Conditions) {
    const auto old = rule({{"match", "/**"}, {"mtime_age", "> 24h"}, {"idle", "<= 1h"}, {"reads", "= 2"}});
    FileFacts facts;
    facts.age = hours(25);
    facts.idle = hours(1);
    facts.reads = 2;
    EXPECT_TRUE(old.holds("x", facts));
    facts.age = hours(24);
    EXPECT_FALSE(old.holds("x", facts));
    facts.age = hours(25);
    facts.reads = 3;
    EXPECT_FALSE(old.holds("x", facts));
    EXPECT_EQ(old.conditions_text(), "mtime_age > 24h, idle <= 60m, reads = 2");
    const auto between = rule({{"match", "/**"}, {"size", ">= 1M, < 1G"}});
    EXPECT_FALSE(between.holds("x", size_of((1 << 20) - 1)));
    EXPECT_TRUE(between.holds("x", size_of(1 << 20)));
    EXPECT_FALSE(between.holds("x", size_of(1 << 30)));
    facts.age = hours(-1);  // a clock that is ahead
    EXPECT_TRUE(rule({{"match", "/**"}, {"mtime_age", "< 1s"}}).holds("x", facts));
}

TEST(ConfigDatasetRules, CandidatesOfAPath) {
    using Numbers = std::vector<std::size_t>;
    const DatasetRules rules({rule({{"match", "/a/**"}, {"size", "> 1M"}}),
                              rule({{"match", "/a/b/**"}, {"idle", "> 1h"}}), rule({{"match", "/a/*"}})},
                             DatasetClass::automatic);
    EXPECT_EQ(rules.candidates("/a/x"), (Numbers{0, 2}));
    EXPECT_EQ(rules.candidates("/a/b/x"), (Numbers{0, 1, 3}));
    EXPECT_EQ(rules.candidates("/c"), (Numbers{3}));
}

TEST(ConfigDatasetRules, ProblemsSayWhatIsAllowed) {
    const auto problem = [](const char* key, const char* value) {
        return DatasetRule().set(key, value).value_or("(accepted)");
    };
    EXPECT_NE(problem("match", "train/**").find("begins neither with / "), std::string::npos);
    EXPECT_NE(problem("class", "lru").find("allowed: auto, epoch"), std::string::npos);
    EXPECT_NE(problem("klass", "hot").find("is no key of a rule"), std::string::npos);
    for (const char* bad : {"", ">", "1M", ">= 1Q", ">= 1M,", ", < 1M", ">= -1", ">> 1", ">= 1M < 2M"})
        EXPECT_NE(problem("size", bad).find("allowed: <, <=, =, >= or > and a size"), std::string::npos)
            << bad;
    EXPECT_NE(problem("idle", "> 5").find("duration"), std::string::npos);
    EXPECT_NE(problem("reads", "> 5s").find("number"), std::string::npos);
}

}  // namespace dataset_rules_test
}  // namespace tierfs
