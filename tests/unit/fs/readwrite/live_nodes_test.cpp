// Nodes of a writable mount whose descriptors were given up are found again by their names, however deep, and
// whatever others did to the tree meanwhile.
#include "fs/readwrite/live_nodes.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backends/dir/posix_directory.hpp"

namespace tierfs {
namespace live_nodes_test {

class LiveNodesTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = (std::filesystem::temp_directory_path() / "tierfs-live-XXXXXX").string();
        ASSERT_NE(::mkdtemp(path.data()), nullptr);
        folder_ = path;
        tree_ = std::make_unique<PosixTree>(
            FileDescriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
        const auto root = tree_->attributes(*tree_->root());
        ASSERT_TRUE(root);
        nodes_ = std::make_unique<LiveNodes>(*tree_, *root, 0);  // no descriptor is kept
        root_ = nodes_->find(kRootNode).value();
    }
    void TearDown() override {
        nodes_.reset();
        tree_.reset();
        const std::string command = "rm -rf '" + folder_.native() + "'";  // remove_all recurses
        EXPECT_EQ(::system(command.c_str()), 0);
    }
    LiveNodePtr met(const LiveNodePtr& parent, const PosixNode& directory, const std::string& name) {
        const auto found = tree_->look_up(directory, name);
        EXPECT_TRUE(found) << name;
        return nodes_->met(parent, name, *found);
    }
    LiveNodePtr met(const LiveNodePtr& parent, const std::string& name) {
        const auto directory = nodes_->hold(parent);
        EXPECT_TRUE(directory) << name;
        return met(parent, **directory, name);
    }
    int code_of(const LiveNodePtr& node) {
        const auto held = nodes_->hold(node);
        if (!held) return held.error().code;
        return tree_->attributes(**held)->identity() == node->identity ? 0 : -1;
    }

    std::filesystem::path folder_;
    std::unique_ptr<PosixTree> tree_;
    std::unique_ptr<LiveNodes> nodes_;
    LiveNodePtr root_;
};

TEST_F(LiveNodesTest, WhatANameThatHasJustLedElsewhereLeadsToIsHeld) {
    const auto attributes = tree_->attributes(*tree_->root());
    LiveNodes nodes(*tree_, *attributes, 64);
    const auto root = nodes.find(kRootNode).value();
    const auto replace = [&] {
        std::ofstream(folder_ / "next") << "x";
        std::filesystem::rename(folder_ / "next", folder_ / "name");
    };
    const auto look_up = [&] {
        auto found = nodes.look_up(root, *tree_->root(), "name");
        EXPECT_TRUE(found);
        const bool is_held = found->held != nullptr;
        return std::pair(nodes.met(root, "name", found->attributes, std::move(found->held)), is_held);
    };
    replace();
    const auto [first, is_first_held] = look_up();
    EXPECT_FALSE(is_first_held) << "a descriptor for each look-up is dear";
    replace();
    EXPECT_EQ(nodes.hold(first).error().code, ESTALE);
    const auto [second, is_second_held] = look_up();
    EXPECT_TRUE(is_second_held);
    replace();
    EXPECT_TRUE(nodes.hold(second));
}

TEST_F(LiveNodesTest, TheLastCloseLetsGoOfWhatHasNoName) {
    const auto attributes = tree_->attributes(*tree_->root());
    LiveNodes nodes(*tree_, *attributes, 64);
    const auto root = nodes.find(kRootNode).value();
    std::ofstream(folder_ / "name") << "x";
    const auto node = nodes.met(root, "name", *tree_->look_up(*tree_->root(), "name"));
    std::weak_ptr<const PosixNode> held;
    {
        const auto now = nodes.hold(node).value();
        held = now;
        nodes.opened(node, now);
    }
    auto leaving = nodes.leaving(*tree_->root(), root, "name");
    std::filesystem::remove(folder_ / "name");
    nodes.left(std::move(leaving), root, "name", LiveNodes::Lost::removed);
    EXPECT_TRUE(nodes.hold(node));
    nodes.closed(node);
    EXPECT_TRUE(held.expired()) << "its space is not free until the kernel forgets it";
}

TEST_F(LiveNodesTest, ADeepTreeIsNoDeepRecursion) {
    constexpr int kDepth = 20000;
    LiveNodePtr node = root_;
    std::vector<LiveNodePtr> all;
    PosixNodePtr held = tree_->root();
    for (int depth = 0; depth < kDepth; ++depth) {
        ASSERT_TRUE(tree_->make_directory(*held, "d", 0700, {::geteuid(), ::getegid(), 0}));
        node = met(node, *held, "d");
        held = tree_->hold(*held, "d").value();
        all.push_back(node);
    }
    held.reset();
    EXPECT_EQ(code_of(node), 0);
    // The kernel forgets them in any order; the last one holds all the others.
    for (const auto& one : all) nodes_->forget(one->id, 1);
    all.clear();
    node.reset();
    EXPECT_EQ(nodes_->known(), 1U);
}

TEST_F(LiveNodesTest, NamesThatOthersMadeLeadRoundInACircleAreForgotten) {
    std::filesystem::create_directories(folder_ / "A/B");
    const auto a = met(root_, "A");
    const auto b = met(a, "B");
    std::filesystem::rename(folder_ / "A/B", folder_ / "B");
    ASSERT_EQ(met(root_, "B"), b);
    std::filesystem::rename(folder_ / "A", folder_ / "B/A");
    ASSERT_EQ(met(b, "A"), a);
    std::filesystem::rename(folder_ / "B", folder_ / "C");  // B: known as B and as A/B; A as B/A and as A
    EXPECT_EQ(code_of(a), ESTALE);
    EXPECT_EQ(code_of(b), ESTALE);
    ASSERT_EQ(met(root_, "C"), b);
    EXPECT_EQ(code_of(b), 0);
    ASSERT_EQ(met(b, "A"), a);
    EXPECT_EQ(code_of(a), 0);
}

TEST_F(LiveNodesTest, AnyNameThatStillLeadsThereWillDo) {
    std::filesystem::create_directories(folder_ / "x");
    std::filesystem::create_directories(folder_ / "y");
    { const FileDescriptor made(::open((folder_ / "x/f").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)); }
    std::filesystem::create_hard_link(folder_ / "x/f", folder_ / "y/f");
    const auto x = met(root_, "x");
    const auto y = met(root_, "y");
    const auto file = met(x, "f");
    ASSERT_EQ(met(y, "f"), file);
    std::filesystem::remove_all(folder_ / "y");
    EXPECT_EQ(code_of(file), 0);
    std::filesystem::remove_all(folder_ / "x");
    EXPECT_EQ(code_of(file), ESTALE);
    EXPECT_EQ(code_of(x), ESTALE);
}

}  // namespace live_nodes_test
}  // namespace tierfs
