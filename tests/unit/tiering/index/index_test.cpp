#include "tiering/index/index.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "tiering/index/format.hpp"

#if defined(__SANITIZE_THREAD__)
#define TIERFS_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TIERFS_UNDER_TSAN 1
#endif
#endif
#ifdef TIERFS_UNDER_TSAN
#define TIERFS_SKIP_FORK_UNDER_TSAN() \
    GTEST_SKIP() << "ThreadSanitizer ends a child of fork that starts threads"
#else
#define TIERFS_SKIP_FORK_UNDER_TSAN() static_cast<void>(0)
#endif

namespace tierfs {
namespace index_test {

namespace fs = std::filesystem;

class IndexTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = (fs::temp_directory_path() / "tierfs-index-XXXXXX").string();
        ASSERT_NE(::mkdtemp(path.data()), nullptr);
        root_ = path;
    }
    void TearDown() override { fs::remove_all(root_); }

    IndexOptions options() const {
        return {.directory = root_ / "index", .memory = 4 << 20, .source = "dir:/x"};
    }
    std::unique_ptr<Index> open() const {
        auto index = Index::open(options());
        EXPECT_TRUE(index) << index.error().message;
        return index ? std::move(*index) : nullptr;
    }
    /// Writes a record behind the index's back.
    void poke(const std::string& key, const std::string& value) const {
        rocksdb::Options raw;
        raw.create_if_missing = true;
        raw.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(index_format::kPrefixBytes));
        rocksdb::DB* database = nullptr;
        ASSERT_TRUE(rocksdb::DB::Open(raw, options().directory.string(), &database).ok());
        ASSERT_TRUE(database->Put(rocksdb::WriteOptions(), key, value).ok());
        delete database;
    }
    std::set<std::string> damaged() const {
        std::set<std::string> names;
        for (const auto& entry : fs::directory_iterator(root_)) {
            const std::string name = entry.path().filename().string();
            if (name.find(".damaged-") != std::string::npos) names.insert(name);
        }
        return names;
    }

    fs::path root_;
};

NodeRecord node_record(NodeId parent, const std::string& name, std::uint64_t size) {
    NodeRecord record;
    record.parent = parent;
    record.name = name;
    record.inode = size;
    record.attributes.size = size;
    record.attributes.version = "v" + std::to_string(size);
    return record;
}

void put(Index& index, NodeId parent, const std::string& name, NodeId node) {
    auto batch = index.batch();
    batch->put_name(parent, name, {node, ObjectKind::file});
    batch->put_node(node, node_record(parent, name, node));
    ASSERT_TRUE(index.commit(std::move(batch)));
}

TEST_F(IndexTest, IsNewOnceAndPrivate) {
    EXPECT_TRUE(open()->is_new());
    EXPECT_FALSE(open()->is_new());
    struct stat attributes {};
    ASSERT_EQ(::stat(options().directory.c_str(), &attributes), 0);
    EXPECT_EQ(attributes.st_mode & 07777U, 0700U);
}

TEST_F(IndexTest, MakesParentsAndTakesATrailingSlash) {
    IndexOptions deep = options();
    deep.directory = (root_ / "a/b/c").string() + "/";
    EXPECT_TRUE(Index::open(deep));
    EXPECT_TRUE(fs::exists(root_ / "a/b/c/CURRENT"));
}

TEST_F(IndexTest, DirectoryThatCannotBeMadeIsAnError) {
    std::ofstream(root_ / "file") << "x";
    IndexOptions bad = options();
    bad.directory = root_ / "file" / "index";
    const auto index = Index::open(bad);
    ASSERT_FALSE(index);
    EXPECT_NE(index.error().message.find("file/index"), std::string::npos);
    EXPECT_FALSE(Index::open({.directory = "", .memory = 1 << 20, .source = "x"}));
}

TEST_F(IndexTest, FindsWhatWasCommittedAndNothingElse) {
    const auto index = open();
    EXPECT_FALSE(index->find_name(1, "a").value());
    EXPECT_FALSE(index->find_node(16).value());
    EXPECT_FALSE(index->find_listing(1).value());
    EXPECT_FALSE(index->find_location({1, 2}).value());
    auto batch = index->batch();
    batch->put_name(1, "a", {16, ObjectKind::directory});
    batch->put_node(16, node_record(1, "a", 5));
    batch->put_listing(1, {7, 1, {{"r", 2}}});
    batch->put_location({1, 2}, std::string_view("a\0b", 3));
    EXPECT_GT(batch->bytes(), 50U);
    EXPECT_FALSE(index->find_name(1, "a").value()) << "seen before it was committed";
    ASSERT_TRUE(index->commit(std::move(batch)));
    EXPECT_EQ(index->find_name(1, "a").value()->node, 16U);
    EXPECT_EQ(index->find_node(16).value()->attributes.version, "v5");
    EXPECT_EQ(index->find_listing(1).value()->hidden.at("r"), 2U);
    EXPECT_EQ(index->find_location({1, 2}).value(), std::string("a\0b", 3));

    batch = index->batch();
    batch->erase_name(1, "a");
    batch->erase_node(16);
    batch->erase_listing(1);
    batch->erase_location({1, 2});
    ASSERT_TRUE(index->commit(std::move(batch)));
    EXPECT_FALSE(index->find_name(1, "a").value());
    EXPECT_FALSE(index->find_node(16).value());
    EXPECT_FALSE(index->find_listing(1).value());
    EXPECT_FALSE(index->find_location({1, 2}).value());
    EXPECT_TRUE(index->commit(index->batch())) << "an empty batch";
}

TEST_F(IndexTest, FindsManyNodesInOnePass) {
    const auto index = open();
    std::vector<NodeId> there;
    for (const NodeId node : {16, 17, 18, 20, 40, 41, 1000, 1001, 5000}) there.push_back(node);
    for (const NodeId node : there) put(*index, 7, "n" + std::to_string(node), node);
    const auto find = [&](const std::vector<NodeId>& wanted) {
        std::vector<NodeId> found;
        EXPECT_TRUE(index->find_nodes(wanted, [&](NodeId node, const NodeRecord& record) {
            EXPECT_EQ(record.name, "n" + std::to_string(node));
            found.push_back(node);
        }));
        return found;
    };
    EXPECT_EQ(find({}), std::vector<NodeId>{});
    EXPECT_EQ(find(there), there);
    EXPECT_EQ(find({1, 17, 19, 20, 39, 41, 42, 5000, 6000}), (std::vector<NodeId>{17, 20, 41, 5000}));
    EXPECT_EQ(find({6000, 7000}), std::vector<NodeId>{});
    EXPECT_EQ(find({17, 17}), (std::vector<NodeId>{17, 17}));
}

TEST_F(IndexTest, ListsADirectoryInByteOrderAfterAName) {
    const auto index = open();
    const std::string names[] = {"a", "a\xff", "a.b", "B", std::string("a\0", 2), "z"};
    NodeId node = kFirstNode;
    for (const auto& name : names) put(*index, 7, name, node++);
    put(*index, 6, "zz", node++);
    put(*index, 8, "0", node++);
    const auto list = [&](std::string_view after) {
        std::vector<std::string> found;
        EXPECT_TRUE(index->for_each_name(7, after, [&](std::string_view name, const NameRecord&) {
            found.emplace_back(name);
            return true;
        }));
        return found;
    };
    const std::vector<std::string> all = {"B", "a", std::string("a\0", 2), "a.b", "a\xff", "z"};
    EXPECT_EQ(list(""), all);
    EXPECT_EQ(list("a"), std::vector<std::string>(all.begin() + 2, all.end()));
    EXPECT_EQ(list("aa"), (std::vector<std::string>{"a\xff", "z"})) << "after a name that is not there";
    EXPECT_EQ(list("zz"), std::vector<std::string>{});
    int calls = 0;
    ASSERT_TRUE(
        index->for_each_name(7, "", [&](std::string_view, const NameRecord&) { return ++calls < 2; }));
    EXPECT_EQ(calls, 2);
}

TEST_F(IndexTest, KindsOfRecordsDoNotMix) {
    const auto index = open();
    auto batch = index->batch();
    batch->put_listing(1, {});
    batch->put_listing(~0ULL, {});
    batch->put_location({~0ULL, ~0ULL}, "x");
    batch->put_location({0, 0}, "y");
    batch->put_name(~0ULL, "n", {16, ObjectKind::file});
    batch->put_node(~0ULL - 5, {});
    ASSERT_TRUE(index->commit(std::move(batch)));
    std::vector<NodeId> listings;
    ASSERT_TRUE(index->for_each_listing([&](NodeId node, const ListingRecord&) {
        listings.push_back(node);
        return true;
    }));
    EXPECT_EQ(listings, (std::vector<NodeId>{1, ~0ULL}));
    std::string locations;
    ASSERT_TRUE(index->for_each_location([&](const ContentId&, std::string_view value) {
        locations += value;
        return true;
    }));
    EXPECT_EQ(locations, "yx");
    int names = 0;
    ASSERT_TRUE(
        index->for_each_name(~0ULL, "", [&](std::string_view, const NameRecord&) { return ++names > 0; }));
    EXPECT_EQ(names, 1);
}

TEST_F(IndexTest, NodeIdsAreNeverHandedOutAgain) {
    std::set<NodeId> seen;
    for (int round = 0; round < 3; ++round) {
        const auto index = open();
        for (int i = 0; i < 5000; ++i) {
            const NodeId node = index->allocate_node().value();
            EXPECT_GE(node, kFirstNode);
            EXPECT_TRUE(seen.insert(node).second);
        }
    }
}

TEST_F(IndexTest, NodeIdsAreUniqueOverThreads) {
    const auto index = open();
    std::array<std::vector<NodeId>, 4> taken;
    std::vector<std::thread> threads;
    for (auto& mine : taken) {
        threads.emplace_back([&] {
            for (int i = 0; i < 5000; ++i) mine.push_back(index->allocate_node().value());
        });
    }
    for (auto& thread : threads) thread.join();
    std::set<NodeId> all;
    for (const auto& mine : taken) all.insert(mine.begin(), mine.end());
    EXPECT_EQ(all.size(), 20000U);
}

TEST_F(IndexTest, CommittedRecordsSurviveAKill) {
    TIERFS_SKIP_FORK_UNDER_TSAN();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto index = Index::open(options());
        if (!index) ::_exit(1);
        for (NodeId i = 0; i < 500; ++i) {
            const auto node = (*index)->allocate_node();
            if (!node || *node != kFirstNode + i) ::_exit(2);
            auto batch = (*index)->batch();
            batch->put_name(1, "n" + std::to_string(i), {*node, ObjectKind::file});
            batch->put_node(*node, node_record(1, "n" + std::to_string(i), i));
            if (!(*index)->commit(std::move(batch))) ::_exit(3);
        }
        ::_exit(0);  // no destructor runs
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    const auto index = open();
    EXPECT_FALSE(index->is_new());
    for (NodeId i = 0; i < 500; ++i) {
        const auto name = index->find_name(1, "n" + std::to_string(i)).value();
        ASSERT_TRUE(name);
        EXPECT_EQ(index->find_node(name->node).value()->attributes.size, i);
    }
    EXPECT_GE(index->allocate_node().value(), kFirstNode + 500);
}

TEST_F(IndexTest, AnotherProcessIsRefusedAndNothingIsPutAside) {
    TIERFS_SKIP_FORK_UNDER_TSAN();
    std::array<int, 2> ready{};
    std::array<int, 2> finish{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    ASSERT_EQ(::pipe(finish.data()), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::close(finish[1]);
        auto index = Index::open(options());
        char byte = index ? 'y' : 'n';
        (void)!::write(ready[1], &byte, 1);
        (void)!::read(finish[0], &byte, 1);
        ::_exit(0);
    }
    ::close(finish[0]);
    ::close(ready[1]);  // so that a child that dies is an end of file here
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ASSERT_EQ(byte, 'y');
    const auto second = Index::open(options());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EBUSY);
    EXPECT_NE(second.error().message.find("in use by another tierfs"), std::string::npos);
    EXPECT_TRUE(damaged().empty());
    ::close(finish[1]);
    ::waitpid(child, nullptr, 0);
    ::close(ready[0]);
    EXPECT_FALSE(open()->is_new());
}

TEST_F(IndexTest, TheSameProcessTwiceIsRefused) {
    const auto first = open();
    const auto second = Index::open(options());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EBUSY);
}

TEST_F(IndexTest, AnotherSourceOrLayoutIsPutAside) {
    put(*open(), 1, "a", 16);
    IndexOptions other = options();
    other.source = "dir:/y";
    {
        const auto index = Index::open(other);
        ASSERT_TRUE(index);
        EXPECT_TRUE((*index)->is_new());
        EXPECT_FALSE((*index)->find_name(1, "a").value());
    }
    EXPECT_EQ(damaged(), std::set<std::string>{"index.damaged-1"});
    poke(std::string(index_format::kLayoutKey), index_format::encode_layout(999));
    const auto index = Index::open(other);
    ASSERT_TRUE(index);
    EXPECT_TRUE((*index)->is_new());
    EXPECT_EQ(damaged(), std::set<std::string>{"index.damaged-2"}) << "the older one is removed";
}

TEST_F(IndexTest, UnderOtherSettingsNamesAreForgottenAndLocationsStay) {
    NodeId before = 0;
    {
        const auto index = open();
        before = index->allocate_node().value();
        auto batch = index->batch();
        batch->put_name(1, "a", {before, ObjectKind::file});
        batch->put_node(before, node_record(1, "a", 5));
        batch->put_listing(1, {7, 1, {}});
        batch->put_location({~0ULL, ~0ULL}, "there");
        ASSERT_TRUE(index->commit(std::move(batch)));
    }
    IndexOptions other = options();
    other.names = " rw";
    for (const auto& now : {other, options(), other}) {
        const auto index = Index::open(now);
        ASSERT_TRUE(index) << index.error().message;
        EXPECT_FALSE((*index)->is_new());
        EXPECT_FALSE((*index)->find_name(1, "a").value() || (*index)->find_node(before).value());
        EXPECT_FALSE((*index)->find_listing(1).value());
        EXPECT_EQ((*index)->find_location({~0ULL, ~0ULL}).value(), "there");
        const NodeId next = (*index)->allocate_node().value();
        EXPECT_GT(next, before) << "a node id was handed out again";
        before = next;
        put(**index, 1, "b", next);
        EXPECT_TRUE((*index)->find_name(1, "b").value());
    }
    EXPECT_TRUE(Index::open(other).value()->find_name(1, "b").value());
    EXPECT_TRUE(damaged().empty());
}

TEST_F(IndexTest, RecordsWithoutALayoutAreNotOurs) {
    fs::create_directory(options().directory);
    poke("Nsomething", "else");
    EXPECT_TRUE(open()->is_new());
    EXPECT_EQ(damaged().size(), 1U);
}

TEST_F(IndexTest, ADamagedDatabaseIsPutAside) {
    put(*open(), 1, "a", 16);
    std::ofstream(options().directory / "CURRENT") << "MANIFEST-999999\n";
    EXPECT_TRUE(open()->is_new());
    std::ofstream(options().directory / "CURRENT") << "nonsense";
    EXPECT_TRUE(open()->is_new());
    EXPECT_EQ(damaged(), std::set<std::string>{"index.damaged-2"});
    EXPECT_FALSE(open()->is_new());
}

TEST_F(IndexTest, BlocksThatDoNotVerifyAreAbsentNowAndRebuiltNext) {
    {
        const auto index = open();
        for (NodeId i = 0; i < 20000; ++i) put(*index, 1, "name" + std::to_string(i), kFirstNode + i);
    }
    open().reset();  // the log of the first is in tables now
    int tables = 0;
    for (const auto& entry : fs::directory_iterator(options().directory)) {
        if (entry.path().extension() != ".sst") continue;
        ++tables;
        std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        // The first half of a table is data blocks.
        for (std::uintmax_t at = 100; at < fs::file_size(entry.path()) / 2; at += 4096) {
            file.seekp(static_cast<std::streamoff>(at));
            file.write("garbage", 7);
        }
    }
    ASSERT_GT(tables, 0);
    {
        const auto index = open();
        std::size_t absent = 0;
        for (NodeId i = 0; i < 20000; ++i) {
            const auto found = index->find_node(kFirstNode + i);
            ASSERT_TRUE(found) << found.error().message;
            absent += *found ? 0 : 1;
        }
        EXPECT_GT(absent, 0U);
    }
    EXPECT_TRUE(open()->is_new());
}

TEST_F(IndexTest, GarbledRecordsAreAbsent) {
    put(*open(), 1, "a", 16);
    put(*open(), 1, "b", 17);
    poke(index_format::name_key(1, "a"), "\x01garbage");
    poke(index_format::number_key('I', 17), "");
    poke(index_format::number_key('D', 1), std::string(40, '\xff'));
    poke("D", "short key");
    poke("L", "short key");
    const auto index = open();
    EXPECT_FALSE(index->is_new());
    EXPECT_FALSE(index->find_name(1, "a").value());
    EXPECT_FALSE(index->find_node(17).value());
    EXPECT_FALSE(index->find_listing(1).value());
    EXPECT_TRUE(index->find_node(16).value());
    std::string names;
    ASSERT_TRUE(index->for_each_name(1, "", [&](std::string_view name, const NameRecord&) {
        names += name;
        return true;
    }));
    EXPECT_EQ(names, "b");
    EXPECT_TRUE(index->for_each_listing([](NodeId, const ListingRecord&) { return true; }));
    EXPECT_TRUE(index->for_each_location([](const ContentId&, std::string_view) { return true; }));
}

TEST_F(IndexTest, AfterAGarbledNameNoListingCountsAsComplete) {
    put(*open(), 1, "a", 16);
    poke(index_format::name_key(1, "a"), "\x01garbage");
    const auto index = open();
    auto batch = index->batch();
    batch->put_listing(1, {7, 1, {}});
    ASSERT_TRUE(index->commit(std::move(batch)));
    EXPECT_TRUE(index->find_listing(1).value());
    EXPECT_FALSE(index->find_name(1, "a").value());
    EXPECT_FALSE(index->find_listing(1).value()) << "would make an existing file seem absent";
}

TEST_F(IndexTest, ALostNextNodeIdGoesOnBehindTheLastNode) {
    put(*open(), 1, "a", 70000);
    for (const std::string& garbage :
         {std::string(), std::string(17, '\x01'), index_format::encode_next_node(20)}) {
        poke(std::string(index_format::kNextNodeKey), garbage);
        EXPECT_GT(open()->allocate_node().value(), 70000U);
    }
}

TEST_F(IndexTest, AgreesWithAMapOverReopenings) {
    std::mt19937_64 random(7);
    std::map<std::pair<NodeId, std::string>, NodeId> names;
    std::map<NodeId, std::uint64_t> nodes;
    for (int round = 0; round < 6; ++round) {
        const auto index = open();
        for (int step = 0; step < 1500; ++step) {
            auto batch = index->batch();
            for (std::uint64_t i = random() % 4; i-- > 0;) {
                const NodeId parent = 1 + random() % 3;
                const std::string name(1 + random() % 3, static_cast<char>('a' + random() % 4));
                const NodeId node = kFirstNode + random() % 50;
                switch (random() % 4) {
                    case 0:
                        batch->erase_name(parent, name);
                        names.erase({parent, name});
                        break;
                    case 1:
                        batch->erase_node(node);
                        nodes.erase(node);
                        break;
                    case 2:
                        batch->put_name(parent, name, {node, ObjectKind::file});
                        names[{parent, name}] = node;
                        break;
                    default:
                        batch->put_node(node, node_record(parent, name, static_cast<std::uint64_t>(step)));
                        nodes[node] = static_cast<std::uint64_t>(step);
                }
            }
            ASSERT_TRUE(index->commit(std::move(batch)));
        }
        for (NodeId parent = 1; parent <= 3; ++parent) {
            std::map<std::pair<NodeId, std::string>, NodeId> found;
            ASSERT_TRUE(
                index->for_each_name(parent, "", [&](std::string_view name, const NameRecord& record) {
                    found[{parent, std::string(name)}] = record.node;
                    return true;
                }));
            std::map<std::pair<NodeId, std::string>, NodeId> expected;
            for (const auto& [key, node] : names) {
                if (key.first == parent) expected[key] = node;
            }
            EXPECT_EQ(found, expected);
        }
        for (NodeId node = kFirstNode; node < kFirstNode + 50; ++node) {
            const auto found = index->find_node(node).value();
            ASSERT_EQ(found.has_value(), nodes.contains(node));
            if (found) {
                EXPECT_EQ(found->attributes.size, nodes[node]);
            }
        }
    }
}

TEST_F(IndexTest, StaysNearItsMemory) {
    const auto index = open();
    for (NodeId i = 0; i < 200; ++i) {
        auto batch = index->batch();
        for (NodeId j = 0; j < 500; ++j) {
            const std::string name = "some-longer-name-of-a-file-" + std::to_string(i * 500 + j);
            batch->put_name(1, name, {kFirstNode + i * 500 + j, ObjectKind::file});
            batch->put_node(kFirstNode + i * 500 + j, node_record(1, name, j));
        }
        ASSERT_TRUE(index->commit(std::move(batch)));
    }
    std::mt19937_64 random(1);
    for (int i = 0; i < 5000; ++i) {
        const NodeId node = kFirstNode + random() % 100000;
        ASSERT_TRUE(index->find_node(node).value());
    }
    EXPECT_GT(index->memory_bytes(), 0U);
    EXPECT_LT(index->memory_bytes(), 2 * options().memory);
}

}  // namespace index_test
}  // namespace tierfs
