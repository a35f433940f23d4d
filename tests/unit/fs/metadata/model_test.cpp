// Random changes of the origin against random questions: with a TTL of 0 every answer is the origin's truth.
#include <random>
#include <thread>

#include "tests/unit/fs/metadata/names_fixture.hpp"

namespace tierfs {
namespace model_test {

/// Walks the same paths in the namespace and in the origin's tree.
class Model : public NamesFixture {
  protected:
    void mutate() {
        const std::string path = random_path();
        switch (random_() % 4) {
            case 0:
                origin_->remove(path);
                break;
            case 1:
                if (!is_kind(path, ObjectKind::file)) origin_->remove(path);
                origin_->put(path, "v" + std::to_string(random_() % 3), random_() % 100);
                break;
            case 2:
                if (!is_kind(path, ObjectKind::directory)) origin_->remove(path);
                origin_->put_directory(path, static_cast<std::int64_t>(random_() % 5));
                break;
            default:
                origin_->set_page_size(1 + random_() % 4);
        }
        drop_what_is_below_files();
    }

    void question() {
        const std::string path = random_path();
        NodeId node = kRootNode;
        std::string walked;
        for (std::size_t at = 0; at < path.size();) {
            const std::size_t slash = std::min(path.find('/', at), path.size());
            const std::string name = path.substr(at, slash - at);
            walked += (walked.empty() ? "" : "/") + name;
            const View view = lookup(node, name);
            const auto tree = origin_->tree();
            const auto truth = tree.find(walked);
            ASSERT_EQ(view.has_value(), truth != tree.end()) << walked;
            if (!view) {
                EXPECT_EQ(view.error().code, ENOENT);
                return;
            }
            check(*view, walked, truth->second);
            if (truth->second.kind != ObjectKind::directory) return;
            node = view->node;
            at = slash + 1;
        }
        check_listing(node, walked);
    }

    void check(const NodeView& view, const std::string& path, const Attributes& truth) {
        EXPECT_EQ(view.attributes.kind, truth.kind) << path;
        EXPECT_EQ(view.attributes.version, truth.version) << path;
        EXPECT_EQ(view.attributes.mtime_ns, truth.mtime_ns) << path;
        // A node names one path and, of files, one version for ever.
        const auto meaning = path + "|" + truth.version + "|" + std::to_string(static_cast<int>(truth.kind));
        const auto [known, is_new] = meanings_.try_emplace(view.node, meaning);
        EXPECT_EQ(known->second, meaning);
        if (truth.kind == ObjectKind::file) {
            EXPECT_EQ(names_->object(view.node).value()->content, content_id("fake:/", path, truth.version));
        }
    }

    void check_listing(NodeId node, const std::string& path) {
        std::vector<std::string> expected;
        const std::string prefix = path.empty() ? "" : path + "/";
        const auto tree = origin_->tree();
        for (const auto& [key, attributes] : tree) {
            if (key.size() <= prefix.size() || !key.starts_with(prefix)) continue;
            if (key.find('/', prefix.size()) == std::string::npos)
                expected.push_back(key.substr(prefix.size()));
        }
        std::sort(expected.begin(), expected.end());
        std::vector<std::string> found;
        std::uint64_t after = 0;
        const std::size_t limit = 3 + random_() % 5;
        for (;;) {
            const auto items = read(node, after, limit);
            ASSERT_TRUE(items) << items.error().message;
            for (const auto& item : *items) {
                if (item.cookie <= 2) continue;
                found.push_back(item.name);
                check(item.view, prefix + item.name, tree.at(prefix + item.name));
            }
            if (items->size() < limit) break;
            after = items->back().cookie;
        }
        EXPECT_EQ(found, expected) << path;
    }

    std::string random_path() {
        std::string path;
        for (std::uint64_t depth = 1 + random_() % 3; depth > 0; --depth) {
            if (!path.empty()) path += '/';
            path += static_cast<char>('a' + random_() % 4);
        }
        return path;
    }

    std::mt19937_64 random_{20240611};

  private:
    bool is_kind(const std::string& path, ObjectKind kind) {
        const auto tree = origin_->tree();
        const auto found = tree.find(path);
        return found == tree.end() || found->second.kind == kind;
    }
    /// Where a file took the place of a directory nothing is left below it.
    void drop_what_is_below_files() {
        for (const auto& [path, attributes] : origin_->tree()) {
            if (attributes.kind == ObjectKind::directory) continue;
            const auto below = origin_->tree();
            const auto next = below.upper_bound(path + "/");
            if (next != below.end() && next->first.starts_with(path + "/")) {
                origin_->remove(path);
            }
        }
    }

    std::map<NodeId, std::string> meanings_;
};

TEST_F(Model, EveryAnswerIsTheOriginsTruth) {
    open(milliseconds(0));
    for (int step = 0; step < 1500 && !HasFailure(); ++step) {
        if (random_() % 3 == 0) {
            mutate();
            pass(milliseconds(1));
        } else {
            question();
        }
        if (step % 400 == 399) reopen(milliseconds(0));
    }
}

TEST_F(Model, AfterTheTtlEveryAnswerIsTheOriginsTruth) {
    open(milliseconds(1000));
    for (int step = 0; step < 600 && !HasFailure(); ++step) {
        for (std::uint64_t changes = random_() % 4; changes > 0; --changes) mutate();
        pass(milliseconds(1000));
        // Asked within one TTL and one state of the origin, so all of them agree with it.
        for (std::uint64_t questions = 1 + random_() % 4; questions > 0 && !HasFailure(); --questions)
            question();
        if (step % 200 == 199) reopen(milliseconds(1000));
    }
}

TEST_F(Model, ManyThreadsSettleOnTheOriginsTruth) {
    open(milliseconds(1));
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([this, t, &stop] {
            std::mt19937_64 random(t);
            while (!stop) {
                NodeId node = kRootNode;
                for (int depth = 0; depth < 3; ++depth) {
                    const View view = lookup(node, std::string(1, static_cast<char>('a' + random() % 4)));
                    if (!view) break;
                    (void)attributes(view->node);
                    if (random() % 8 == 0) names_->version_gone(view->node);
                    if (view->attributes.kind == ObjectKind::file) break;
                    node = view->node;
                    if (random() % 3 == 0) (void)read(node, 0, 100);
                }
            }
        });
    }
    for (int step = 0; step < 300; ++step) {
        mutate();
        pass(milliseconds(step % 3));
        std::this_thread::yield();
    }
    stop = true;
    for (auto& thread : threads) thread.join();
    pass(milliseconds(10));
    for (int i = 0; i < 200 && !HasFailure(); ++i) {
        question();
        pass(milliseconds(2));
    }
}

}  // namespace model_test
}  // namespace tierfs
