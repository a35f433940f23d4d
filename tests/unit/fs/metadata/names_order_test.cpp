// Orders of questions and changes in the namespace that chance hardly ever brings about.
#include "tests/unit/fs/metadata/names_fixture.hpp"
#include "tests/unit/script.hpp"

#ifdef TIERFS_TEST_POINTS

namespace tierfs {
namespace names_order_test {

class NamesOrder : public NamesFixture {
  protected:
    static NodeRecord record(const std::string& name, const std::string& version) {
        NodeRecord made;
        made.parent = kRootNode;
        made.name = name;
        made.attributes.version = version;
        return made;
    }
    static void lead(NodeTable& table, const std::string& name, NodeId node, const std::string& version) {
        Changes changes(table.index());
        changes.put_node(node, record(name, version));
        changes.put_name(kRootNode, name, node, ObjectKind::file);
        ASSERT_TRUE(table.commit(changes));
    }
};

TEST_F(NamesOrder, AnOldAnswerOfTheIndexIsNotKeptOverANewOne) {
    open();
    NodeTable writer(*index_, 1 << 20, "fake:/", sink_);
    lead(writer, "f", 100, "v1");
    NodeTable table(*index_, 1 << 20, "fake:/", sink_);  // its caches are empty
    Script script;
    // The reader has the old record in its hand when a writer is done.
    script.once("names.lookup.indexed", [&] { lead(table, "f", 101, "v2"); });
    const auto in_between = table.name(kRootNode, "f");
    ASSERT_TRUE(in_between && *in_between);
    EXPECT_EQ((*in_between)->node, 100U) << "it asked before";
    const auto after = table.name(kRootNode, "f");
    ASSERT_TRUE(after && *after);
    EXPECT_EQ((*after)->node, 101U);
    EXPECT_EQ((*after)->record->attributes.version, "v2");
}

TEST_F(NamesOrder, BetweenIndexAndCachesEveryAnswerIsWhole) {
    open();
    NodeTable table(*index_, 1 << 20, "fake:/", sink_);
    lead(table, "f", 100, "v1");
    ASSERT_TRUE(table.name(kRootNode, "f").value());
    Script script;
    script.once("names.commit.indexed", [&] {
        const auto known = table.name(kRootNode, "f");
        ASSERT_TRUE(known && *known);
        const bool is_old = (*known)->node == 100 && (*known)->record->attributes.version == "v1";
        const bool is_new = (*known)->node == 101 && (*known)->record->attributes.version == "v2";
        EXPECT_TRUE(is_old || is_new);
    });
    lead(table, "f", 101, "v2");
    EXPECT_EQ(table.name(kRootNode, "f").value()->node, 101U);
    EXPECT_FALSE(table.is_current(100, record("f", "v1")).value());
}

TEST_F(NamesOrder, ADoubtThatIsRecordedWhileALookUpHasTheOldRecordCounts) {
    origin_->put("d/x", "v");
    workers_ = 1;  // an answer tells that what was posted before is done
    open();
    const NodeId d = find(kRootNode, "d").node;
    origin_->remove("d");
    Script script;
    script.once("names.known.found", [&] {
        names_->version_gone(d);
        EXPECT_EQ(code(lookup(kRootNode, "x")), ENOENT);
    });
    EXPECT_EQ(code(lookup(kRootNode, "d")), ENOENT);
}

TEST_F(NamesOrder, WhoIsToldToForgetANameFindsTheNewOne) {
    origin_->put("f", "v1");
    open();
    const NodeView old = find(kRootNode, "f");
    origin_->put("f", "v2");
    pass(milliseconds(70000));
    View seen = fail(EIO, "not asked");
    std::size_t requests = 0;
    Script script;
    script.once("names.announce", [&] {  // what the kernel does when it is told
        requests = origin_->requests();
        seen = lookup(kRootNode, "f");
        requests = origin_->requests() - requests;
    });
    const NodeView renewed = find(kRootNode, "f");
    EXPECT_NE(renewed.node, old.node);
    ASSERT_TRUE(seen) << seen.error().message;
    EXPECT_EQ(seen->node, renewed.node);
    EXPECT_EQ(requests, 0U);
    EXPECT_EQ(sink_.take_entries(), (std::vector<std::pair<NodeId, std::string>>{{kRootNode, "f"}}));
}

}  // namespace names_order_test

#endif

}  // namespace names_order_test
