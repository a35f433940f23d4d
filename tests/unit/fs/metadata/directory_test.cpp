// Directories: listings, cookies, refreshes, what is hidden, what is collected.
#include <thread>

#include "tests/unit/fs/metadata/names_fixture.hpp"

namespace tierfs {
namespace directory_test {

using Directories = NamesFixture;
using Strings = std::vector<std::string>;
using Entries = std::vector<std::pair<NodeId, std::string>>;

DirectoryEntry file(const std::string& name, const std::string& version = "v") {
    DirectoryEntry entry;
    entry.name = name;
    entry.attributes.version = version;
    return entry;
}

DirectoryEntry directory(const std::string& name) {
    DirectoryEntry entry;
    entry.name = name;
    entry.attributes.kind = ObjectKind::directory;
    return entry;
}

TEST_F(Directories, ListsAllPagesInOrderWithDots) {
    origin_->set_page_size(3);
    for (const char* name : {"b", "a", "d/x", "c", "e", "f", "g"}) origin_->put(name, "v");
    open();
    const auto items = read(kRootNode).value();
    Strings names;
    std::set<std::uint64_t> cookies;
    for (const auto& item : items) {
        names.push_back(item.name);
        cookies.insert(item.cookie);
    }
    EXPECT_EQ(names, (Strings{".", "..", "a", "b", "c", "d", "e", "f", "g"}));
    EXPECT_EQ(cookies.size(), names.size());
    EXPECT_EQ(items[0].cookie, 1U);
    EXPECT_EQ(items[1].cookie, 2U);
    EXPECT_EQ(items[0].view.node, kRootNode);
    EXPECT_EQ(items[1].view.node, kRootNode);
    EXPECT_EQ(items[2].cookie, items[2].view.node);
    EXPECT_EQ(items[2].view.valid_for, milliseconds(60000));
    EXPECT_EQ(origin_->lists_of(""), 3U);
    const auto below = read(items[5].view.node).value();
    EXPECT_EQ(below[1].view.node, kRootNode);
    EXPECT_EQ(below[0].view.node, items[5].view.node);
}

TEST_F(Directories, AfterAListingNoFileIsAsked) {
    for (int i = 0; i < 50; ++i) origin_->put("f" + std::to_string(i), "v");
    open();
    const auto items = read(kRootNode).value();
    const auto requests = origin_->requests();
    for (const auto& item : items) {
        if (item.cookie <= 2) continue;
        EXPECT_EQ(find(kRootNode, item.name).node, item.view.node);
        EXPECT_TRUE(attributes(item.view.node));
    }
    EXPECT_EQ(code(lookup(kRootNode, "none")), ENOENT);
    EXPECT_EQ(origin_->requests(), requests);
}

TEST_F(Directories, NamesOfALongListingAreAsFreshAsTheirPage) {
    for (int i = 0; i < 10; ++i) origin_->put("f" + std::to_string(i), "1");
    origin_->set_page_size(1);
    origin_->before_next_pages([this] { pass(std::chrono::seconds(10)); });
    open(std::chrono::seconds(60));
    for (std::size_t turn = 1; turn <= 2; ++turn) {  // the second finds all as it was
        ASSERT_EQ(names_of(kRootNode).size(), 10U);
        EXPECT_EQ(origin_->lists_of(""), 10 * turn);
        for (const char* late : {"f5", "f9"}) {
            find(kRootNode, late);
            EXPECT_EQ(origin_->stats_of(late), 0U) << "its page is less than metadata.ttl old";
        }
        find(kRootNode, "f1");
        EXPECT_EQ(origin_->stats_of("f1"), turn) << "older";
        EXPECT_EQ(attributes(find(kRootNode, "f9").node)->valid_for, std::chrono::seconds(50));
    }
}

TEST_F(Directories, AnyCutGivesTheSameNames) {
    for (int i = 0; i < 10; ++i) origin_->put("f" + std::to_string(i), "v");
    open();
    for (std::size_t limit = 1; limit < 14; ++limit) {
        Strings names;
        std::uint64_t after = 0;
        for (;;) {
            const auto items = read(kRootNode, after, limit).value();
            ASSERT_LE(items.size(), limit);
            for (const auto& item : items) names.push_back(item.name);
            if (items.size() < limit) break;
            after = items.back().cookie;
        }
        EXPECT_EQ(names.size(), 12U) << limit;
        EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 12U);
    }
    EXPECT_TRUE(read(kRootNode, 0, 0)->empty());
    EXPECT_EQ(origin_->lists_of(""), 1U);
}

TEST_F(Directories, NamesThatVanishOrChangeBetweenTwoCallsDoNotDisturb) {
    for (int i = 0; i < 6; ++i) origin_->put("f" + std::to_string(i), "v");
    open(milliseconds(0));
    const auto first = read(kRootNode, 0, 5).value();
    EXPECT_EQ(first.back().name, "f2");
    origin_->remove("f2");
    origin_->put("f3", "v2");
    origin_->remove("f4");
    EXPECT_EQ(names_of(kRootNode), (Strings{"f0", "f1", "f3", "f5"})) << "another reader lists afresh";
    const auto rest = read(kRootNode, first.back().cookie, 100).value();
    ASSERT_EQ(rest.size(), 2U);
    EXPECT_EQ(rest[0].name, "f3");
    EXPECT_EQ(rest[1].name, "f5");
}

TEST_F(Directories, APageReadAheadIsAsGoodAsOneReadNow) {
    for (int i = 0; i < 10; ++i) origin_->put("f" + std::to_string(i), "v");
    open();
    const auto first = read(kRootNode, 0, 4).value();
    const std::uint64_t after = first.back().cookie;
    const auto names_after = [&] {
        Strings names;
        const auto items = read(kRootNode, after, 4).value();
        for (const auto& item : items) names.push_back(item.name);
        return names;
    };
    names_->read_ahead(kRootNode, after, 4);
    pass(milliseconds(300));
    const auto ahead = read(kRootNode, after, 4).value();
    EXPECT_EQ(ahead.front().name, "f2");
    EXPECT_EQ(ahead.front().view.valid_for, milliseconds(59700)) << "from now on";
    EXPECT_EQ(names_after(), (Strings{"f2", "f3", "f4", "f5"})) << "each page is given once";

    // What became known meanwhile stands in it.
    names_->read_ahead(kRootNode, after, 4);
    origin_->put("f3", "v2");
    const NodeId old = ahead[1].view.node;
    names_->version_gone(old);
    ASSERT_NE(find(kRootNode, "f3").node, old);
    const auto afresh = read(kRootNode, after, 4).value();
    EXPECT_EQ(afresh[1].view.attributes.version, "v2");
}

TEST_F(Directories, APageReadAheadOutlivesNothing) {
    for (int i = 0; i < 6; ++i) origin_->put("f" + std::to_string(i), "v");
    open(milliseconds(0));
    const auto first = read(kRootNode, 0, 4).value();
    const std::uint64_t after = first.back().cookie;
    names_->read_ahead(kRootNode, after, 4);
    origin_->remove("f3");
    EXPECT_EQ(names_of(kRootNode), (Strings{"f0", "f1", "f2", "f4", "f5"})) << "another reader lists afresh";
    EXPECT_EQ(read(kRootNode, after, 4)->front().name, "f2");
    EXPECT_EQ(read(kRootNode, after, 4)->at(1).name, "f4");
    names_->read_ahead(kFirstNode - 1, after, 4);  // no such directory
    names_->read_ahead(kRootNode, 9, 4);           // no such entry
    EXPECT_FALSE(read(kFirstNode - 1, after, 4));
    EXPECT_TRUE(read(kRootNode, 9, 4)->empty());
}

TEST_F(Directories, GoingOnDoesNotListAgain) {
    for (int i = 0; i < 6; ++i) origin_->put("f" + std::to_string(i), "v");
    open(milliseconds(0));
    const auto first = read(kRootNode, 0, 4).value();
    read(kRootNode, first.back().cookie, 100).value();
    EXPECT_EQ(origin_->lists_of(""), 1U);
    read(kRootNode, 0, 4).value();
    EXPECT_EQ(origin_->lists_of(""), 2U);
}

TEST_F(Directories, StrangeCookiesAreTheEnd) {
    origin_->put("d/x", "v");
    origin_->put("e", "v");
    open();
    names_of(kRootNode);
    const NodeId d = find(kRootNode, "d").node;
    names_of(d);
    const NodeId x = find(d, "x").node;
    for (const std::uint64_t cookie :
         {std::uint64_t{3}, std::uint64_t{15}, std::uint64_t{99999}, ~std::uint64_t{0}, x}) {
        const auto items = read(kRootNode, cookie);
        ASSERT_TRUE(items);
        EXPECT_TRUE(items->empty()) << cookie;
    }
}

TEST_F(Directories, ConcurrentReadersShareOneListing) {
    origin_->put("a", "v");
    open();
    origin_->hold();
    std::vector<std::future<Items>> answers;
    for (int i = 0; i < 20; ++i) answers.push_back(start_read(kRootNode, 0, 10));
    origin_->await_waiting(1);
    origin_->release();
    for (auto& answer : answers) EXPECT_EQ(await(std::move(answer))->size(), 3U);
    EXPECT_EQ(origin_->lists_of(""), 1U);
}

TEST_F(Directories, ManyHugeListingsLeaveWorkersToLookups) {
    origin_->set_page_size(1);
    for (int d = 0; d < 20; ++d) {
        for (int i = 0; i < 30; ++i) origin_->put("d" + std::to_string(d) + "/f" + std::to_string(i), "v");
    }
    origin_->put("file", "v");
    open();
    std::vector<std::future<Items>> listings;
    for (int d = 0; d < 20; ++d) {
        listings.push_back(start_read(find(kRootNode, "d" + std::to_string(d)).node, 0, 100));
    }
    EXPECT_TRUE(lookup(kRootNode, "file"));
    for (auto& listing : listings) EXPECT_EQ(await(std::move(listing))->size(), 32U);
}

TEST_F(Directories, ARefreshKeepsWhatIsUnchanged) {
    origin_->set_page_size(2);
    for (const char* name : {"changed", "gone", "kept", "d/x"}) origin_->put(name, "v1");
    open();
    const NodeView kept = find(kRootNode, "kept");
    const NodeView changed = find(kRootNode, "changed");
    const NodeView gone = find(kRootNode, "gone");
    const NodeView d = find(kRootNode, "d");
    names_of(kRootNode);
    sink_.take_entries();
    sink_.take_nodes();
    origin_->put("changed", "v2");
    origin_->remove("gone");
    origin_->put("new", "v1");
    pass(milliseconds(60000));
    EXPECT_EQ(names_of(kRootNode), (Strings{"changed", "d", "kept", "new"}));
    EXPECT_EQ(find(kRootNode, "kept").node, kept.node);
    EXPECT_EQ(find(kRootNode, "d").node, d.node);
    EXPECT_NE(find(kRootNode, "changed").node, changed.node);
    EXPECT_EQ(find(kRootNode, "changed").inode, changed.inode);
    EXPECT_EQ(find(kRootNode, "kept").valid_for, milliseconds(60000));
    EXPECT_EQ(code(lookup(kRootNode, "gone")), ENOENT);
    auto told = sink_.take_entries();
    std::sort(told.begin(), told.end());
    EXPECT_EQ(told, (Entries{{kRootNode, "changed"}, {kRootNode, "gone"}}));
    auto nodes = sink_.take_nodes();
    std::sort(nodes.begin(), nodes.end());
    std::vector<NodeId> expected{changed.node, gone.node};
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(nodes, expected);
    EXPECT_EQ(must(attributes(gone.node)).attributes.version, "v1");
}

TEST_F(Directories, AListingThatFailsHalfWayErasesNothing) {
    origin_->set_page_size(2);
    for (const char* name : {"a", "b", "c", "d"}) origin_->put(name, "v1");
    open();
    names_of(kRootNode);
    origin_->remove("a");
    origin_->remove("d");
    origin_->fail_second_pages(true);
    origin_->put("e", "v1");
    origin_->put("f", "v1");
    pass(milliseconds(60000));
    EXPECT_EQ(names_of(kRootNode), (Strings{"a", "b", "c", "d"})) << "served stale";
    pass(milliseconds(60000));
    EXPECT_EQ(read(kRootNode).error().code, EIO);
    origin_->fail_second_pages(false);
    EXPECT_EQ(names_of(kRootNode), (Strings{"b", "c", "e", "f"}));
}

TEST_F(Directories, AnOriginThatRepeatsAPageIsAnErrorAndNoLoop) {
    open();
    origin_->repeat_pages(true);
    EXPECT_EQ(read(kRootNode).error().code, EIO);
    origin_->repeat_pages(false);
    EXPECT_TRUE(names_of(kRootNode).empty());
}

TEST_F(Directories, PagesWithoutEndAndWithoutANewNameAreAnError) {
    open();
    origin_->go_round(true);
    EXPECT_EQ(read(kRootNode).error().code, EIO);
    origin_->go_round(false);
    EXPECT_TRUE(names_of(kRootNode).empty());
}

TEST_F(Directories, AnOlderAnswerDoesNotUndoANewerOne) {
    origin_->set_page_size(1);
    origin_->put("a", "v1");
    origin_->put("b", "v1");
    open();
    origin_->hold();
    auto listing = start_read(kRootNode, 0, 10);
    origin_->await_waiting(1);
    // Asked later than the listing began, so it is the newer truth whatever the listing says.
    pass(milliseconds(10));
    auto answer = start_lookup(kRootNode, "z");
    origin_->await_waiting(2);
    origin_->put("z", "v9");
    ListPage old;
    old.entries = {file("a", "v1"), file("b", "v1"), file("z", "v8")};
    origin_->script({old});
    origin_->release();
    const NodeView newer = must(await(std::move(answer)));
    ASSERT_TRUE(await(std::move(listing)));
    // Either order of arrival ends with one truth that later questions agree with.
    const NodeView now_known = find(kRootNode, "z");
    EXPECT_EQ(now_known.attributes.version, "v9");
    EXPECT_EQ(now_known.node, newer.node);
}

TEST_F(Directories, ADirectoryWinsOverAFileOfTheSameNameInAPage) {
    open();
    ListPage page;
    page.entries = {file("a"), file("b"), directory("a")};
    page.hidden = {{"empty path component", 2}};
    origin_->script({page});
    const auto items = read(kRootNode).value();
    ASSERT_EQ(items.size(), 4U);
    EXPECT_EQ(items[2].view.attributes.kind, ObjectKind::directory);
    EXPECT_EQ(names_->stats().hidden,
              (std::map<std::string, std::uint64_t>{{"empty path component", 2},
                                                    {"file beside a directory of the same name", 1}}));
}

TEST_F(Directories, ADirectoryWinsOverPagesAndKeepsItsNodeOverRefreshes) {
    open();
    ListPage first;
    first.entries = {file("a"), file("a-b")};
    ListPage second;
    second.entries = {directory("a"), file("c")};
    NodeId node = 0;
    for (int round = 0; round < 3; ++round) {
        origin_->script({first, second});
        const auto items = read(kRootNode).value();
        ASSERT_EQ(items.size(), 5U);
        EXPECT_EQ(items[2].name, "a");
        EXPECT_EQ(items[2].view.attributes.kind, ObjectKind::directory);
        if (node != 0) {
            EXPECT_EQ(items[2].view.node, node);
        }
        node = items[2].view.node;
        EXPECT_EQ(names_->stats().hidden.at("file beside a directory of the same name"), 1U);
        EXPECT_EQ(index_->find_listing(kRootNode).value()->entries, 3U);
        pass(milliseconds(60000));
    }
    // The directory goes, the file stays: now it is seen.
    origin_->script({first});
    const auto items = read(kRootNode).value();
    ASSERT_EQ(items.size(), 4U);
    EXPECT_EQ(items[2].view.attributes.kind, ObjectKind::file);
    EXPECT_TRUE(names_->stats().hidden.empty());
}

TEST_F(Directories, NamesThatCannotBeAreHidden) {
    open();
    ListPage page;
    page.entries = {file(""),
                    file("."),
                    file(".."),
                    file("a/b"),
                    file(std::string("a\0b", 3)),
                    file(std::string(256, 'x')),
                    file(std::string(255, 'y')),
                    file("\xff\xfe")};
    origin_->script({page});
    EXPECT_EQ(names_of(kRootNode).size(), 2U);
    EXPECT_EQ(names_->stats().hidden.at("invalid name"), 6U);
}

TEST_F(Directories, HiddenCountsOutliveARestartAndFollowRefreshes) {
    origin_->put("d/x", "v");
    open();
    ListPage page;
    page.entries = {directory("d"), file("x")};
    page.hidden = {{"r", 3}};
    origin_->script({page});
    names_of(kRootNode);
    ListPage below;
    below.entries = {file("x")};
    below.hidden = {{"r", 4}, {"s", 1}};
    origin_->script({below});
    names_of(find(kRootNode, "d").node);
    const std::map<std::string, std::uint64_t> both{{"r", 7}, {"s", 1}};
    EXPECT_EQ(names_->stats().hidden, both);
    reopen();
    EXPECT_EQ(names_->stats().hidden, both);
    pass(milliseconds(60000));
    page.entries = {file("x")};
    page.hidden = {{"r", 5}};
    origin_->script({page});
    names_of(kRootNode);
    EXPECT_EQ(names_->stats().hidden, (std::map<std::string, std::uint64_t>{{"r", 5}}))
        << "the directory vanished with its hidden keys";
}

TEST_F(Directories, AVanishedDirectoryIsAskedAfresh) {
    origin_->put("d/x", "v");
    open();
    const NodeId d = find(kRootNode, "d").node;
    origin_->remove("d");
    EXPECT_EQ(read(d).error().code, ENOENT);
    EXPECT_EQ(code(lookup(kRootNode, "d")), ENOENT);
}

TEST_F(Directories, NodesWithoutANameAreCollectedByTheNextSession) {
    for (int i = 0; i < 1500; ++i) origin_->put("d/sub/f" + std::to_string(i), "v");
    origin_->put("d/y", "v");
    origin_->put("a", "v1");
    origin_->put("keep", "v1");
    open(milliseconds(0));
    const NodeId d = find(kRootNode, "d").node;
    const NodeId sub = find(d, "sub").node;
    names_of(d);
    const auto below = read(sub).value();
    ASSERT_EQ(below.size(), 1502U);
    const NodeId a = find(kRootNode, "a").node;
    const NodeId keep = find(kRootNode, "keep").node;
    origin_->remove("d");
    origin_->put("a", "v2");
    names_of(kRootNode);
    EXPECT_TRUE(attributes(a));
    EXPECT_TRUE(index_->find_node(d).value());
    EXPECT_TRUE(index_->find_node(below.back().view.node).value());

    reopen(milliseconds(0));
    const auto left = [this] {
        std::size_t count = 0;
        EXPECT_TRUE(index_->for_each_name(kOrphans, "", [&](std::string_view, const NameRecord&) {
            ++count;
            return true;
        }));
        return count;
    };
    for (int i = 0; i < 3000 && left() > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
    EXPECT_EQ(left(), 0U);
    for (const auto& item : below) {
        if (item.cookie > 2) {
            EXPECT_FALSE(index_->find_node(item.view.node).value());
        }
    }
    for (const NodeId node : {d, sub, a}) EXPECT_FALSE(index_->find_node(node).value());
    for (const NodeId node : {d, sub}) EXPECT_FALSE(index_->find_listing(node).value());
    EXPECT_TRUE(index_->find_node(keep).value());
    EXPECT_EQ(find(kRootNode, "keep").node, keep);
    EXPECT_EQ(find(kRootNode, "a").attributes.version, "v2");
}

TEST_F(Directories, ReadingFailsOverToNothingWhenTheOriginCannotList) {
    open();
    origin_->fail_with(EACCES);
    EXPECT_EQ(read(kRootNode).error().code, EACCES);
    origin_->fail_with(0);
    EXPECT_TRUE(read(kRootNode));
}

}  // namespace directory_test
}  // namespace tierfs
