// A source that has changed since it was packed: what a comparison finds, and what is kept and told of it.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>

#include "backends/pack/comparison.hpp"
#include "backends/pack/index_writer.hpp"
#include "backends/pack/source_watch.hpp"
#include "fs/pack/tree.hpp"
#include "tests/unit/backends/pack/pack_entries.hpp"
#include "tests/unit/fs/metadata/fake_origin.hpp"
#include "tests/unit/fs/stage/copy/temporary_folder.hpp"

namespace tierfs::pack {
namespace staleness_test {

using Counts = Changes::Counts;

class StalenessTest : public testing::Test {
  protected:
    void SetUp() override {
        for (unsigned i = 0; i < 20; ++i)
            source_.put("d" + std::to_string(i % 3) + "/f" + std::to_string(i), "v");
        source_.put("a", "v1");
        source_.put("deep/er/x", "v1");
        source_.put_link("link", "a");
        source_.set_page_size(3);
        make_index();
    }

    void make_index() {
        const auto tree = list_tree(source_, [] { return false; });
        ASSERT_TRUE(tree);
        IndexWriter writer;
        for (const auto& entry : tree->entries) ASSERT_TRUE(writer.add(entry));
        folder_.write("index", writer.finish({}));
        auto index = PackIndex::open(folder_ / "index");
        ASSERT_TRUE(index) << index.error().message;
        index_ = std::move(*index);
    }

    Result<Changes> compare_now(std::size_t most = 1000) {
        ComparisonOptions options;
        options.most = most;
        options.stopped = [] { return false; };
        return compare(*index_, source_, options);
    }
    Changes must_compare() {
        auto changes = compare_now();
        EXPECT_TRUE(changes) << changes.error().message;
        return changes ? std::move(*changes) : Changes();
    }
    /// What a mount would show at a path.
    std::optional<Attributes> shown(const Changes& changes, const std::string& path) {
        if (const auto* changed = changes.find(path); changed != nullptr) return changed->now;
        auto entry = index_->find(path);
        return entry ? std::optional(entry->attributes) : std::nullopt;
    }
    void expect_shown_as_source(const Changes& changes, const std::set<std::string>& paths) {
        const auto tree = source_.tree();
        for (const auto& path : paths) {
            const auto found = tree.find(path);
            const auto is = shown(changes, path);
            ASSERT_EQ(is.has_value(), found != tree.end()) << path;
            if (is) {
                EXPECT_TRUE(pack::is_same(*is, found->second, true)) << path;
            }
        }
    }

    stage::TemporaryFolder folder_;
    FakeOrigin source_;
    std::unique_ptr<PackIndex> index_;
};

TEST_F(StalenessTest, NothingDiffersAtFirst) {
    const auto changes = must_compare();
    EXPECT_TRUE(changes.names().empty());
    EXPECT_EQ(changes.counts, Counts());
    EXPECT_EQ(changes.find("d0/f0"), nullptr);
}

TEST_F(StalenessTest, EachKindOfChangeIsFoundAndCounted) {
    source_.put("a", "v2");
    source_.put("new", "v1");
    source_.put("more/and/more", "v1");
    source_.remove("d0/f0");
    source_.remove("deep");
    const auto changes = must_compare();
    EXPECT_EQ(changes.counts, (Counts{1, 4, 4}));
    EXPECT_EQ(shown(changes, "a")->version, "v2");
    EXPECT_EQ(shown(changes, "more/and")->kind, ObjectKind::directory);
    EXPECT_FALSE(shown(changes, "d0/f0"));
    EXPECT_FALSE(shown(changes, "deep"));
    EXPECT_FALSE(shown(changes, "deep/er/x")) << "what is below something that is gone";
    EXPECT_TRUE(shown(changes, "d1/f1"));
    std::vector<std::string> names;
    changes.list("", "a", [&](const std::string& name, const Changes::Name&) {
        names.push_back(name);
        return true;
    });
    EXPECT_EQ(names, (std::vector<std::string>{"deep", "more", "new"}));
}

TEST_F(StalenessTest, FilesBecomeDirectoriesAndTheReverse) {
    source_.remove("a");
    source_.put("a/inside", "v1");
    source_.remove("d1");
    source_.put("d1", "v1");
    const auto changes = must_compare();
    EXPECT_EQ(shown(changes, "a")->kind, ObjectKind::directory);
    EXPECT_EQ(shown(changes, "a/inside")->version, "v1");
    EXPECT_EQ(shown(changes, "d1")->kind, ObjectKind::file);
    EXPECT_FALSE(shown(changes, "d1/f1"));
    EXPECT_EQ(changes.counts, (Counts{2, 1, 7}));
}

TEST_F(StalenessTest, AFileBesideADirectoryOfItsNameIsNoChange) {
    // As an object store lists them: both, the directory in a later page.
    source_.put("d0x", "v");
    make_index();
    ListPage first, second;
    for (const auto& [path, attributes] : source_.tree()) {
        if (path.empty() || path.find('/') != std::string::npos) continue;
        (path == "d0" ? second : first).entries.push_back({path, attributes});
    }
    Attributes beside;
    beside.version = "w";
    first.entries.push_back({"d0", beside});
    source_.script({first, second});
    const auto changes = must_compare();
    EXPECT_TRUE(changes.names().empty());
    EXPECT_EQ(changes.counts, Counts());
}

TEST_F(StalenessTest, OtherAttributesAreShownButNotCounted) {
    source_.put_directory("d2", 77);
    const auto changes = must_compare();
    EXPECT_EQ(shown(changes, "d2")->mtime_ns, 77);
    EXPECT_EQ(changes.counts, Counts());
}

TEST_F(StalenessTest, AModelOfChangesAgrees) {
    std::mt19937 chance(11);
    std::set<std::string> paths;
    for (const auto& entry : source_.tree()) paths.insert(entry.first);
    for (int round = 0; round < 60; ++round) {
        for (int change = 0; change < 6; ++change) {
            std::string path(1, static_cast<char>('a' + chance() % 4));
            for (unsigned depth = chance() % 3; depth > 0; --depth)
                path += std::string("/") + static_cast<char>('a' + chance() % 4);
            if (chance() % 3 == 0) path = "d" + std::to_string(chance() % 3);
            source_.remove(path);
            if (chance() % 3 != 0) {
                for (auto slash = path.find('/'); slash != std::string::npos;
                     slash = path.find('/', slash + 1))
                    if (source_.tree()[path.substr(0, slash)].kind != ObjectKind::directory)
                        source_.remove(path.substr(0, slash));
                source_.put(path, "v" + std::to_string(chance() % 3));
            }
        }
        for (const auto& entry : source_.tree()) paths.insert(entry.first);
        const auto changes = must_compare();
        expect_shown_as_source(changes, paths);
        ASSERT_TRUE(changes.save(folder_ / "changes"));
        const auto again = Changes::load(folder_ / "changes");
        ASSERT_TRUE(again) << again.error().message;
        EXPECT_EQ(again->names(), changes.names());
        if (HasFailure()) break;
        if (round % 20 == 19) make_index();
    }
}

TEST_F(StalenessTest, AListingThatFailsTellsNothing) {
    source_.fail_second_pages(true);
    EXPECT_EQ(compare_now().error().code, EIO);
    source_.fail_second_pages(false);
    source_.fail_with(ETIMEDOUT);
    EXPECT_EQ(compare_now().error().code, ETIMEDOUT);
}

TEST_F(StalenessTest, TooManyAreNotKept) {
    for (unsigned i = 0; i < 200; ++i) source_.put("new/" + std::to_string(i), "v");
    auto changes = compare_now(100);
    ASSERT_TRUE(changes);
    EXPECT_TRUE(changes->too_many);
    EXPECT_TRUE(changes->names().empty());
    ASSERT_TRUE(changes->save(folder_ / "changes"));
    EXPECT_TRUE(Changes::load(folder_ / "changes")->too_many);
    EXPECT_FALSE(compare_now(300)->too_many);
}

TEST_F(StalenessTest, DamagedFilesOfChangesAreNamed) {
    EXPECT_EQ(Changes::load(folder_ / "none").error().code, ENOENT);
    source_.put("a", "v2");
    ASSERT_TRUE(must_compare().save(folder_ / "changes"));
    auto bytes = folder_.read("changes");
    bytes[20] ^= 1;
    folder_.write("changes", bytes);
    const auto loaded = Changes::load(folder_ / "changes");
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().message.find(folder_ / "changes"), std::string::npos);
}

/// The watch, and what it told.
class SourceWatchTest : public StalenessTest {
  protected:
    void watch() {
        SourceWatchOptions options;
        options.comparison.most = 1000;
        options.every = std::chrono::milliseconds(1);
        options.kept = folder_ / "kept";
        watch_ = std::make_unique<SourceWatch>(*index_, source_, std::move(options));
    }
    void start() {
        watch_->start([this](const Renewed& renewed) {
            const MutexLock lock(mutex_);
            for (const auto& name : renewed.names)
                told_.insert(renewed.directory + "/" + name.name + (name.same_object ? " same" : ""));
        });
    }
    void await_end() {
        const auto ended = watch_->stats().ended;
        await([&] { return watch_->stats().ended > ended + 1; });
    }
    template <typename Condition>
    static void await(const Condition& condition) {
        for (int i = 0; i < 2000 && !condition(); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        EXPECT_TRUE(condition());
    }
    std::set<std::string> take_told() {
        const MutexLock lock(mutex_);
        return std::exchange(told_, {});
    }

    Mutex mutex_;
    std::set<std::string> told_ TIERFS_GUARDED_BY(mutex_);
    std::unique_ptr<SourceWatch> watch_;
};

TEST_F(SourceWatchTest, TellsWhatNobodyKnewOfAndKeepsIt) {
    source_.put("a", "v2");
    source_.put_directory("d2", 77);
    watch();
    EXPECT_TRUE(watch_->changes()->names().empty());
    start();
    await([this] { return watch_->stats().ended > 0; });
    EXPECT_EQ(take_told(), (std::set<std::string>{"/a", "/d2 same"}));
    EXPECT_EQ(watch_->stats().changed, 1U);
    source_.put("a", "v1");
    source_.put("d2/new", "v1");
    await_end();
    EXPECT_EQ(take_told(), (std::set<std::string>{"/a", "d2/new"})) << "it is what the pack says again";
    watch_->stop();
    watch();
    EXPECT_NE(watch_->changes()->find("d2/new"), nullptr) << "the next daemon begins with it";
    EXPECT_EQ(watch_->changes()->find("a"), nullptr);
    start();
    await([this] { return watch_->stats().ended > 0; });
    EXPECT_TRUE(take_told().empty());
}

TEST_F(SourceWatchTest, KeepsWhatItKnowsOfASourceOutOfReach) {
    source_.put("a", "v2");
    watch();
    start();
    await([this] { return watch_->stats().ended > 0; });
    source_.fail_with(ECONNREFUSED);
    await([this] { return !watch_->stats().error.empty(); });
    EXPECT_NE(watch_->changes()->find("a"), nullptr);
    EXPECT_EQ(watch_->stats().changed, 1U);
    source_.fail_with(0);
    await([this] { return watch_->stats().error.empty(); });
}

TEST_F(SourceWatchTest, StopsInTheMiddleOfAListing) {
    source_.hold();
    watch();
    start();
    source_.await_waiting(1);
    watch_->begin_stop();
    source_.stop();
    watch_->stop();
    EXPECT_EQ(watch_->stats().ended, 0U);
    EXPECT_TRUE(watch_->stats().error.empty());
}

}  // namespace staleness_test
}  // namespace tierfs::pack
