// Lookups and attributes: what is asked of the origin, and what is answered without.
#include <thread>

#include "tests/unit/fs/metadata/names_fixture.hpp"

namespace tierfs {
namespace lookup_test {

using Names = NamesFixture;
using Entries = std::vector<std::pair<NodeId, std::string>>;

TEST_F(Names, LookupAsksOnceAndAnswersFromMemoryWhileFresh) {
    origin_->put("a", "v1", 42);
    open();
    const NodeView first = find(kRootNode, "a");
    EXPECT_GE(first.node, kFirstNode);
    EXPECT_EQ(first.inode, first.node);
    EXPECT_EQ(first.attributes.size, 42U);
    EXPECT_EQ(first.valid_for, milliseconds(60000));
    pass(milliseconds(59000));
    EXPECT_EQ(find(kRootNode, "a").node, first.node);
    EXPECT_EQ(find(kRootNode, "a").valid_for, milliseconds(1000));
    EXPECT_EQ(origin_->requests(), 1U);
    pass(milliseconds(1000));
    EXPECT_EQ(find(kRootNode, "a").node, first.node) << "unchanged: the same node";
    EXPECT_EQ(origin_->requests(), 2U);
}

TEST_F(Names, NamesThatCannotBeAreRefusedWithoutARequest) {
    open();
    EXPECT_EQ(code(lookup(kRootNode, std::string(256, 'x'))), ENAMETOOLONG);
    for (const std::string& name :
         {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("a\0b", 3)}) {
        EXPECT_EQ(code(lookup(kRootNode, name)), ENOENT);
    }
    EXPECT_EQ(origin_->requests(), 0U);
    EXPECT_EQ(code(lookup(kRootNode, std::string(255, 'x'))), ENOENT);
    EXPECT_EQ(origin_->requests(), 1U);
}

TEST_F(Names, UnknownNodesAreStale) {
    open();
    EXPECT_EQ(code(lookup(999, "a")), ESTALE);
    EXPECT_EQ(code(attributes(999)), ESTALE);
    EXPECT_EQ(code(attributes(kOrphans)), ESTALE);
    EXPECT_EQ(read(999).error().code, ESTALE);
    EXPECT_EQ(read_link(999).error().code, ESTALE);
    EXPECT_EQ(names_->object(999).error().code, ESTALE);
    names_->version_gone(999);
}

TEST_F(Names, AFileIsNoDirectory) {
    origin_->put("a", "v1");
    origin_->put("d/x", "v1");
    open();
    const NodeId file = find(kRootNode, "a").node;
    const NodeId directory = find(kRootNode, "d").node;
    EXPECT_EQ(code(lookup(file, "b")), ENOTDIR);
    EXPECT_EQ(read(file).error().code, ENOTDIR);
    EXPECT_EQ(names_->object(directory).error().code, EISDIR);
    EXPECT_EQ(names_->object(kRootNode).error().code, EISDIR);
    EXPECT_EQ(read_link(file).error().code, EINVAL);
}

TEST_F(Names, AbsenceIsRememberedForAFewSeconds) {
    open();
    EXPECT_EQ(code(lookup(kRootNode, "no")), ENOENT);
    EXPECT_EQ(code(lookup(kRootNode, "no")), ENOENT);
    EXPECT_EQ(origin_->requests(), 1U);
    EXPECT_EQ(names_->negative_ttl(), milliseconds(5000));
    origin_->put("no", "v1");
    pass(milliseconds(5000));
    EXPECT_TRUE(lookup(kRootNode, "no"));
}

TEST_F(Names, TheSecondUnansweredLookupListsTheDirectory) {
    for (int i = 0; i < 20; ++i) origin_->put("d/f" + std::to_string(i), "v");
    open();
    const NodeId directory = find(kRootNode, "d").node;
    for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(lookup(directory, "f" + std::to_string(i)));
    }
    EXPECT_EQ(code(lookup(directory, "none")), ENOENT) << "the listing says so";
    EXPECT_EQ(origin_->stats_of("d/f0"), 1U);
    EXPECT_EQ(origin_->lists_of("d"), 1U);
    EXPECT_EQ(origin_->requests(), 3U);
}

TEST_F(Names, WhereListingIsDearEachNameIsAsked) {
    origin_ = std::make_unique<FakeOrigin>(0);
    for (int i = 0; i < 5; ++i) origin_->put("f" + std::to_string(i), "v");
    open();
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(lookup(kRootNode, "f" + std::to_string(i)));
    EXPECT_EQ(origin_->lists_of(""), 0U);
    EXPECT_EQ(origin_->requests(), 5U);
}

TEST_F(Names, AListingIsPaidForBySingleQuestionsFirst) {
    origin_ = std::make_unique<FakeOrigin>(8);
    for (int i = 0; i < 30; ++i) origin_->put("d/f" + std::to_string(i), "v");
    open();
    const NodeId directory = find(kRootNode, "d").node;
    for (int i = 0; i < 7; ++i) EXPECT_TRUE(lookup(directory, "f" + std::to_string(i)));
    EXPECT_EQ(origin_->lists_of("d"), 0U);
    for (int i = 7; i < 30; ++i) EXPECT_TRUE(lookup(directory, "f" + std::to_string(i)));
    EXPECT_EQ(origin_->lists_of("d"), 1U);
    EXPECT_EQ(origin_->requests(), 9U) << "d, seven of its names, and all of them";
}

TEST_F(Names, ALookupDoesNotWaitForMoreThanOnePage) {
    origin_->set_page_size(2);
    for (int i = 0; i < 9; ++i) origin_->put("f" + std::to_string(i), "v");
    open();
    find(kRootNode, "f8");
    find(kRootNode, "f7");
    EXPECT_EQ(origin_->stats_of("f7"), 1U);
    EXPECT_EQ(names_of(kRootNode).size(), 9U);
    EXPECT_EQ(origin_->lists_of(""), 5U);
}

TEST_F(Names, ConcurrentLookupsOfANameShareOneRequest) {
    origin_->put("a", "v1");
    open();
    origin_->hold();
    std::vector<std::future<View>> answers;
    for (int i = 0; i < 50; ++i) answers.push_back(start_lookup(kRootNode, "a"));
    origin_->await_waiting(1);
    origin_->release();
    std::set<NodeId> nodes;
    for (auto& answer : answers) nodes.insert(must(await(std::move(answer))).node);
    EXPECT_EQ(nodes.size(), 1U);
    EXPECT_EQ(origin_->requests(), 1U);
}

TEST_F(Names, ASlowOriginDoesNotHoldUpWhatIsKnown) {
    origin_->put("a", "v1");
    origin_->put("b", "v1");
    open();
    find(kRootNode, "a");
    origin_->hold();
    auto slow = start_lookup(kRootNode, "b");
    origin_->await_waiting(1);
    EXPECT_TRUE(lookup(kRootNode, "a"));
    origin_->release();
    EXPECT_TRUE(await(std::move(slow)));
}

TEST_F(Names, AChangedObjectGetsANewNodeAndTheOldOneServesOn) {
    origin_->put("d/a", "v1", 10);
    open();
    const NodeId directory = find(kRootNode, "d").node;
    const NodeView old = find(directory, "a");
    const auto old_object = names_->object(old.node).value();
    origin_->put("d/a", "v2", 20);
    pass(milliseconds(60000));
    const NodeView changed = find(directory, "a");
    EXPECT_NE(changed.node, old.node);
    EXPECT_EQ(changed.inode, old.inode) << "st_ino is of the path";
    EXPECT_EQ(changed.attributes.size, 20U);
    EXPECT_EQ(sink_.take_entries(), (Entries{{directory, "a"}}));
    EXPECT_EQ(sink_.take_nodes(), std::vector<NodeId>{old.node});

    const NodeView still = must(attributes(old.node));
    EXPECT_EQ(still.node, old.node);
    EXPECT_EQ(still.attributes.size, 10U);
    EXPECT_EQ(still.valid_for, milliseconds(0));
    EXPECT_EQ(names_->object(old.node).value()->version, "v1");
    const auto object = names_->object(changed.node).value();
    EXPECT_EQ(object->version, "v2");
    EXPECT_EQ(object->path, "d/a");
    EXPECT_EQ(object->size, 20U);
    EXPECT_EQ(object->content, content_id("fake:/", "d/a", "v2"));
    EXPECT_NE(object->content, old_object->content);
}

TEST_F(Names, AttributesNoticeAChangeToo) {
    origin_->put("a", "v1", 10);
    open();
    const NodeView old = find(kRootNode, "a");
    EXPECT_EQ(must(attributes(old.node)).valid_for, milliseconds(60000));
    EXPECT_EQ(origin_->requests(), 1U);
    origin_->put("a", "v2", 20);
    pass(milliseconds(60000));
    const NodeView still = must(attributes(old.node));
    EXPECT_EQ(still.node, old.node);
    EXPECT_EQ(still.attributes.version, "v1");
    EXPECT_EQ(still.valid_for, milliseconds(0));
    EXPECT_EQ(sink_.take_entries(), (Entries{{kRootNode, "a"}}));
    EXPECT_NE(find(kRootNode, "a").node, old.node);
    EXPECT_EQ(origin_->requests(), 2U);
}

TEST_F(Names, AttributesThatChangeWithoutAVersionKeepTheNode) {
    origin_->put_directory("d", 5);
    open();
    const NodeView before = find(kRootNode, "d");
    origin_->put_directory("d", 6);
    pass(milliseconds(60000));
    const NodeView after = must(attributes(before.node));
    EXPECT_EQ(after.node, before.node);
    EXPECT_EQ(after.attributes.mtime_ns, 6);
    EXPECT_TRUE(sink_.take_entries().empty());
}

TEST_F(Names, AVanishedNameIsAbsentAndItsNodeServesOn) {
    origin_->put("a", "v1", 10);
    open();
    const NodeView old = find(kRootNode, "a");
    origin_->remove("a");
    pass(milliseconds(60000));
    EXPECT_EQ(code(lookup(kRootNode, "a")), ENOENT);
    EXPECT_EQ(sink_.take_entries(), (Entries{{kRootNode, "a"}}));
    EXPECT_EQ(must(attributes(old.node)).attributes.size, 10U);
    EXPECT_TRUE(names_->object(old.node));
    origin_->put("a", "v1", 10);
    pass(milliseconds(60000));
    EXPECT_NE(find(kRootNode, "a").node, old.node);
}

TEST_F(Names, AFileThatBecomesADirectoryAndBack) {
    origin_->put("a", "v1");
    open();
    const NodeId file = find(kRootNode, "a").node;
    origin_->remove("a");
    origin_->put("a/b", "v2");
    pass(milliseconds(60000));
    const NodeView directory = find(kRootNode, "a");
    EXPECT_EQ(directory.attributes.kind, ObjectKind::directory);
    EXPECT_NE(directory.node, file);
    EXPECT_TRUE(lookup(directory.node, "b"));
    origin_->remove("a");
    origin_->put("a", "v3");
    pass(milliseconds(60000));
    EXPECT_EQ(names_of(kRootNode), std::vector<std::string>{"a"});
    const NodeView again = find(kRootNode, "a");
    EXPECT_EQ(again.attributes.version, "v3");
    EXPECT_EQ(must(attributes(directory.node)).attributes.kind, ObjectKind::directory);
    EXPECT_EQ(code(lookup(directory.node, "b")), ENOENT);
}

TEST_F(Names, TheRootsAttributesAreAskedOnceAndShared) {
    origin_->put_directory("", 77);
    open();
    origin_->hold();
    auto one = start_attributes(kRootNode);
    auto two = start_attributes(kRootNode);
    origin_->await_waiting(1);
    origin_->release();
    const NodeView view = must(await(std::move(one)));
    EXPECT_EQ(view.node, kRootNode);
    EXPECT_EQ(view.inode, kRootNode);
    EXPECT_EQ(view.attributes.mtime_ns, 77);
    EXPECT_EQ(view.valid_for, milliseconds(60000));
    must(await(std::move(two)));
    must(attributes(kRootNode));
    EXPECT_EQ(origin_->stats_of(""), 1U);
}

TEST_F(Names, TtlZeroAsksEachTime) {
    origin_->put("a", "v1");
    open(milliseconds(0));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(find(kRootNode, "a").valid_for, milliseconds(0));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(code(lookup(kRootNode, "b")), ENOENT);
    EXPECT_EQ(origin_->stats_of("a"), 4U);
    EXPECT_EQ(origin_->stats_of("b"), 4U);
    EXPECT_EQ(names_->negative_ttl(), milliseconds(0));
}

TEST_F(Names, ForeverNeverAsksAgain) {
    origin_->put("a", "v1");
    origin_->put("b", "v1");
    open(kForever);
    EXPECT_EQ(find(kRootNode, "a").valid_for, kForever);
    names_of(kRootNode);
    must(attributes(kRootNode));
    const auto requests = origin_->requests();
    pass(std::chrono::hours(24 * 365));
    origin_->put("a", "v2");
    EXPECT_EQ(find(kRootNode, "a").attributes.version, "v1");
    EXPECT_EQ(find(kRootNode, "b").valid_for, kForever);
    EXPECT_EQ(code(lookup(kRootNode, "c")), ENOENT);
    EXPECT_EQ(names_of(kRootNode).size(), 2U);
    must(attributes(kRootNode));
    EXPECT_EQ(origin_->requests(), requests);
}

TEST_F(Names, AfterARestartTheIndexAnswersWhileFresh) {
    origin_->put("d/a", "v1", 10);
    open();
    const NodeId directory = find(kRootNode, "d").node;
    const NodeView before = find(directory, "a");
    names_of(directory);
    must(attributes(kRootNode));
    const auto requests = origin_->requests();
    pass(milliseconds(30000));
    reopen();
    EXPECT_EQ(find(kRootNode, "d").node, directory);
    const NodeView after = find(directory, "a");
    EXPECT_EQ(after.node, before.node);
    EXPECT_EQ(after.valid_for, milliseconds(30000));
    EXPECT_EQ(names_->object(after.node).value()->path, "d/a");
    EXPECT_EQ(names_of(directory).size(), 1U);
    EXPECT_EQ(code(lookup(directory, "none")), ENOENT);
    must(attributes(kRootNode));
    EXPECT_EQ(origin_->requests(), requests);
}

TEST_F(Names, AClockThatGoesBackMakesAnswersStale) {
    origin_->put("a", "v1", 10);
    open();
    const NodeId node = find(kRootNode, "a").node;
    names_of(kRootNode);
    EXPECT_EQ(code(lookup(kRootNode, "b")), ENOENT);
    const auto requests = origin_->requests();
    pass(-std::chrono::hours(24));
    EXPECT_EQ(find(kRootNode, "a").node, node);
    EXPECT_EQ(code(lookup(kRootNode, "b")), ENOENT);
    const auto asked = origin_->requests();
    EXPECT_GT(asked, requests);
    EXPECT_EQ(find(kRootNode, "a").node, node);
    EXPECT_EQ(origin_->requests(), asked) << "fresh again by the new time";
}

TEST_F(Names, AnOriginThatCannotBeAskedIsBridgedForOneMoreTtl) {
    origin_->put("a", "v1", 10);
    open();
    const NodeId node = find(kRootNode, "a").node;
    names_of(kRootNode);
    must(attributes(kRootNode));
    for (const int failure : {ETIMEDOUT, EIO, EHOSTUNREACH, ENETUNREACH, ECONNREFUSED}) {
        origin_->fail_with(failure);
        pass(milliseconds(59999));
        EXPECT_TRUE(lookup(kRootNode, "a"));
        pass(milliseconds(60000));
        EXPECT_EQ(must(lookup(kRootNode, "a")).valid_for, milliseconds(1000));
        EXPECT_TRUE(attributes(node));
        EXPECT_TRUE(attributes(kRootNode));
        EXPECT_EQ(code(lookup(kRootNode, "b")), ENOENT) << "the stale listing has no such name";
        EXPECT_EQ(names_of(kRootNode).size(), 1U);
        pass(milliseconds(1));
        EXPECT_EQ(code(lookup(kRootNode, "a")), failure);
        EXPECT_EQ(code(attributes(node)), failure);
        EXPECT_EQ(code(attributes(kRootNode)), failure);
        EXPECT_EQ(code(lookup(kRootNode, "b")), failure);
        EXPECT_EQ(read(kRootNode).error().code, failure);
        origin_->fail_with(0);
        EXPECT_EQ(find(kRootNode, "a").node, node);
        names_of(kRootNode);
        must(attributes(kRootNode));
    }
}

TEST_F(Names, ErrorsThatAreNoOutageAreNotBridged) {
    origin_->put("a", "v1");
    open();
    find(kRootNode, "a");
    origin_->fail_with(EACCES);
    pass(milliseconds(60000));
    EXPECT_EQ(code(lookup(kRootNode, "a")), EACCES);
    EXPECT_EQ(read(kRootNode).error().code, EACCES);
    origin_->fail_with(0);
    EXPECT_TRUE(lookup(kRootNode, "a"));
}

TEST_F(Names, AnAnswerThatThereNeverWasIsTheError) {
    open();
    origin_->fail_with(ETIMEDOUT);
    EXPECT_EQ(code(lookup(kRootNode, "a")), ETIMEDOUT);
    EXPECT_EQ(code(attributes(kRootNode)), ETIMEDOUT);
    EXPECT_EQ(read(kRootNode).error().code, ETIMEDOUT);
}

TEST_F(Names, AGoneVersionIsAskedAfresh) {
    origin_->put("d/a", "v1");
    open();
    const NodeId directory = find(kRootNode, "d").node;
    const NodeId old = find(directory, "a").node;
    names_of(directory);
    origin_->put("d/a", "v2");
    names_->version_gone(old);
    const NodeView changed = find(directory, "a");
    EXPECT_NE(changed.node, old);
    EXPECT_EQ(changed.attributes.version, "v2");
    names_->version_gone(old);
    names_->version_gone(kRootNode);
    EXPECT_EQ(find(directory, "a").node, changed.node);
}

TEST_F(Names, AGoneVersionTellsTheKernelAndOutlivesARestart) {
    origin_->put("a", "v1");
    open(kForever);
    const NodeId old = find(kRootNode, "a").node;
    names_of(kRootNode);
    names_->version_gone(old);
    Entries told;
    for (int i = 0; i < 3000 && told.empty(); ++i) {
        told = sink_.take_entries();
        if (told.empty()) std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(told, (Entries{{kRootNode, "a"}}));
    reopen(kForever);
    origin_->put("a", "v2");
    EXPECT_EQ(find(kRootNode, "a").attributes.version, "v2");
}

TEST_F(Names, LinksAreReadOnce) {
    origin_->put_link("l", "../target");
    open();
    const NodeView link = find(kRootNode, "l");
    EXPECT_EQ(link.attributes.kind, ObjectKind::symlink);
    EXPECT_EQ(read_link(link.node).value(), "../target");
    const auto requests = origin_->requests();
    EXPECT_EQ(read_link(link.node).value(), "../target");
    EXPECT_EQ(origin_->requests(), requests);
    origin_->remove("l");
    origin_->put_link("l", "elsewhere");
    pass(milliseconds(60000));
    const NodeView changed = find(kRootNode, "l");
    EXPECT_NE(changed.node, link.node);
    EXPECT_EQ(read_link(changed.node).value(), "elsewhere");
}

TEST_F(Names, DeepNestsHaveTheirPath) {
    std::string path = "d";
    for (int i = 0; i < 300; ++i) path += "/d";
    origin_->put(path + "/file", "v1");
    open();
    NodeId node = kRootNode;
    for (int i = 0; i <= 300; ++i) node = find(node, "d").node;
    const NodeView file = find(node, "file");
    EXPECT_EQ(names_->object(file.node).value()->path, path + "/file");
}

TEST_F(Names, TooDeepNestsAndLoopsInTheIndexEnd) {
    open();
    // A directory that is its own parent, as a garbled index may have it.
    auto batch = index_->batch();
    NodeRecord loop;
    loop.parent = 500;
    loop.name = "x";
    loop.attributes.kind = ObjectKind::directory;
    batch->put_node(500, loop);
    batch->put_name(500, "x", {500, ObjectKind::directory});
    ASSERT_TRUE(index_->commit(std::move(batch)));
    EXPECT_EQ(code(lookup(500, "a")), ENAMETOOLONG);
    EXPECT_EQ(read(500).error().code, ENAMETOOLONG);
}

TEST_F(Names, ANameWhoseNodeIsLostOrContradictsIsAskedAfresh) {
    origin_->put("a", "v1");
    origin_->put("b", "v1");
    open();
    auto batch = index_->batch();
    batch->put_name(kRootNode, "a", {700, ObjectKind::file});
    batch->put_name(kRootNode, "b", {701, ObjectKind::file});
    NodeRecord other;
    other.parent = 42;
    other.name = "other";
    other.checked_ns = now_;
    batch->put_node(701, other);
    batch->put_listing(kRootNode, {now_, 2, {}});
    ASSERT_TRUE(index_->commit(std::move(batch)));
    EXPECT_EQ(read(kRootNode)->size(), 3U);
    EXPECT_EQ(names_of(kRootNode).size(), 2U) << "a lost node makes the listing worthless";
    EXPECT_EQ(find(kRootNode, "a").attributes.version, "v1");
    EXPECT_EQ(find(kRootNode, "b").attributes.version, "v1");
}

TEST_F(Names, StopAnswersAllWhoWait) {
    for (int i = 0; i < 40; ++i) origin_->put("f" + std::to_string(i), "v");
    origin_->put_directory("d");
    origin_->put_link("l", "t");
    open();
    const NodeId link = find(kRootNode, "l").node;
    origin_->hold();
    std::vector<std::future<View>> answers;
    for (int i = 0; i < 40; ++i) answers.push_back(start_lookup(kRootNode, "f" + std::to_string(i)));
    auto root = start_attributes(kRootNode);
    auto listing = start_read(kRootNode, 0, 10);
    origin_->await_waiting(1);
    origin_->stop();
    names_->stop();
    for (auto& answer : answers) EXPECT_EQ(code(await(std::move(answer))), ECANCELED);
    EXPECT_EQ(code(await(std::move(root))), ECANCELED);
    EXPECT_EQ(await(std::move(listing)).error().code, ECANCELED);
    names_->stop();
    EXPECT_EQ(code(lookup(kRootNode, "late")), ECANCELED);
    EXPECT_EQ(read(kRootNode).error().code, ECANCELED);
    EXPECT_EQ(read_link(link).error().code, ECANCELED);
    EXPECT_TRUE(lookup(kRootNode, "l")) << "what is known is answered still";
    names_->version_gone(link);
}

TEST_F(Names, MemoryStaysInItsBounds) {
    origin_->set_page_size(5000);
    for (int i = 0; i < 20000; ++i) origin_->put("some-longer-file-name-" + std::to_string(i), "version");
    open(milliseconds(60000), 1 << 20);
    EXPECT_EQ(names_of(kRootNode).size(), 20000U);
    EXPECT_GT(names_->stats().known_nodes, 100U);
    EXPECT_LT(names_->stats().known_nodes, 5000U);
    EXPECT_TRUE(lookup(kRootNode, "some-longer-file-name-0")) << "from the index";
    EXPECT_EQ(origin_->requests(), 4U);
}

}  // namespace lookup_test
}  // namespace tierfs
