// Rules with `immutable`: what is asked once, and never again.
#include "tests/unit/fs/metadata/names_fixture.hpp"

namespace tierfs {
namespace immutable_test {

class ImmutableNames : public NamesFixture {
  protected:
    void add_rule(const std::string& match, const std::string& size = "", bool immutable = true) {
        DatasetRule rule;
        ASSERT_FALSE(rule.set("match", match));
        if (immutable) {
            ASSERT_FALSE(rule.set("immutable", "true"));
        }
        if (!size.empty()) {
            ASSERT_FALSE(rule.set("size", size));
        }
        rules_.push_back(rule);
    }
};

TEST_F(ImmutableNames, OnlyTheFolderOfTheRuleIsKeptForEver) {
    origin_->put("train/a", "v1", 42);
    origin_->put("val/b", "v1", 42);
    add_rule("/train/**");
    open();
    const NodeId train = find(kRootNode, "train").node, val = find(kRootNode, "val").node;
    EXPECT_EQ(find(kRootNode, "train").valid_for, kForever);
    EXPECT_EQ(find(train, "a").valid_for, kForever);
    EXPECT_EQ(find(val, "b").valid_for, milliseconds(60000));
    EXPECT_TRUE(names_->keeps_listing(train));
    EXPECT_FALSE(names_->keeps_listing(val));
    EXPECT_FALSE(names_->keeps_listing(kRootNode));
    EXPECT_EQ(names_of(train), (std::vector<std::string>{"a"}));
    EXPECT_EQ(names_of(val), (std::vector<std::string>{"b"}));
    const std::size_t before = origin_->requests();
    pass(std::chrono::hours(24 * 365));
    EXPECT_EQ(find(kRootNode, "train").valid_for, kForever);
    EXPECT_EQ(find(train, "a").valid_for, kForever);
    EXPECT_EQ(must(attributes(find(train, "a").node)).valid_for, kForever);
    EXPECT_EQ(names_of(train), (std::vector<std::string>{"a"}));
    EXPECT_EQ(code(lookup(train, "absent")), ENOENT);
    EXPECT_EQ(origin_->requests(), before);
    find(val, "b");
    EXPECT_GT(origin_->requests(), before);
}

TEST_F(ImmutableNames, AnEntryOfAListingIsKeptForEver) {
    origin_->put("train/a", "v1", 42);
    add_rule("/train/**");
    open();
    const auto items = read(find(kRootNode, "train").node);
    ASSERT_TRUE(items);
    EXPECT_EQ(items->back().name, "a");
    EXPECT_EQ(items->back().view.valid_for, kForever);
}

TEST_F(ImmutableNames, ARuleForFilesAloneSaysNothingOfDirectories) {
    origin_->put("d/a.idx", "v1", 42);
    origin_->put("d/large", "v1", 4200);
    origin_->put("d/small", "v1", 1);
    add_rule("/d/large", "< 10", false);
    add_rule("**/*.idx");
    add_rule("/d/**", "> 1000");
    open();
    const NodeId directory = find(kRootNode, "d").node;
    EXPECT_NE(find(kRootNode, "d").valid_for, kForever);
    EXPECT_FALSE(names_->keeps_listing(directory));
    EXPECT_EQ(find(directory, "a.idx").valid_for, kForever);
    EXPECT_EQ(find(directory, "large").valid_for, kForever);
    EXPECT_NE(find(directory, "small").valid_for, kForever);
}

TEST_F(ImmutableNames, AVersionThatIsGoneNeverthelessIsAskedAfresh) {
    origin_->put("train/a", "v1", 42);
    add_rule("/train/**");
    open();
    const NodeId train = find(kRootNode, "train").node;
    const NodeView first = find(train, "a");
    origin_->put("train/a", "v2", 43);
    names_->version_gone(first.node);
    EXPECT_EQ(find(train, "a").attributes.size, 43U);
}

TEST_F(ImmutableNames, TheRuleCountsAndNotWhatTheIndexHolds) {
    origin_->put("train/a", "v1", 42);
    add_rule("/train/**");
    open();
    find(find(kRootNode, "train").node, "a");
    rules_.clear();
    reopen();
    EXPECT_NE(find(find(kRootNode, "train").node, "a").valid_for, kForever);
}

}  // namespace immutable_test
}  // namespace tierfs
