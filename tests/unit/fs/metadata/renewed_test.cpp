// Names that somebody else has seen to be others at the origin (Namespace::renewed).
#include "tests/unit/fs/metadata/names_fixture.hpp"

namespace tierfs {
namespace renewed_test {

using Names = NamesFixture;
using Entries = std::vector<std::pair<NodeId, std::string>>;

TEST_F(Names, RenewedNamesAreAskedForThoughTheyAreFresh) {
    origin_->put("d/a", "v1");
    origin_->put("d/gone", "v1");
    origin_->put("d/same", "v1");
    open();
    const auto directory = find(kRootNode, "d").node;
    ASSERT_EQ(names_of(directory), (std::vector<std::string>{"a", "gone", "same"}));
    const auto was = find(directory, "a").node;
    const auto same = find(directory, "same").node;
    EXPECT_EQ(code(lookup(directory, "new")), ENOENT);
    origin_->put("d/a", "v2");
    origin_->put("d/new", "v1");
    origin_->remove("d/gone");
    EXPECT_EQ(find(directory, "a").node, was) << "as long as it is fresh";
    sink_.take_entries();
    sink_.take_nodes();
    names_->renewed("d", {{"a"}, {"gone"}, {"new"}, {"same", true}});
    EXPECT_EQ(sink_.take_entries(), (Entries{{directory, "a"}, {directory, "gone"}, {directory, "new"}}));
    EXPECT_EQ(sink_.take_nodes(), (std::vector<NodeId>{same, directory}));
    EXPECT_EQ(find(directory, "a").attributes.version, "v2");
    EXPECT_NE(find(directory, "a").node, was);
    EXPECT_EQ(find(directory, "same").node, same);
    EXPECT_EQ(code(lookup(directory, "gone")), ENOENT);
    EXPECT_TRUE(lookup(directory, "new"));
    EXPECT_EQ(names_of(directory), (std::vector<std::string>{"a", "new", "same"}));
}

TEST_F(Names, AbsenceThatWasAskedForIsForgotten) {
    open();
    EXPECT_EQ(code(lookup(kRootNode, "new")), ENOENT);
    origin_->put("new", "v1");
    EXPECT_EQ(code(lookup(kRootNode, "new")), ENOENT);
    names_->renewed("", {{"new"}});
    EXPECT_TRUE(lookup(kRootNode, "new"));
}

TEST_F(Names, RenewedAreFilesThatBecameDirectoriesAndTheReverse) {
    origin_->put("a", "v1");
    origin_->put("d/x", "v1");
    open();
    names_of(kRootNode);
    names_of(find(kRootNode, "d").node);
    origin_->remove("a");
    origin_->remove("d");
    origin_->put("a/x", "v1");
    origin_->put("d", "v1");
    names_->renewed("", {{"a"}, {"d"}});
    names_->renewed("a", {{"x"}});
    const auto view = find(kRootNode, "a");
    EXPECT_EQ(view.attributes.kind, ObjectKind::directory);
    EXPECT_TRUE(lookup(view.node, "x"));
    EXPECT_EQ(find(kRootNode, "d").attributes.kind, ObjectKind::file);
}

TEST_F(Names, WhatIsNotKnownNeedsNoRenewal) {
    origin_->put("d/a", "v1");
    open();
    names_->renewed("d", {{"a"}});
    names_->renewed("none/at/all", {{"a"}});
    EXPECT_TRUE(sink_.take_entries().empty());
    EXPECT_EQ(origin_->requests(), 0U);
}

}  // namespace renewed_test
}  // namespace tierfs
