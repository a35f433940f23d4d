// A namespace over a fake origin and a real index, with a clock that tests turn.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fs/metadata/node_table.hpp"
#include "fs/metadata/open_namespace.hpp"
#include "tests/unit/fs/metadata/fake_origin.hpp"

namespace tierfs {

class RecordingSink final : public InvalidationSink {
  public:
    void entry_changed(NodeId parent, const std::string& name) override {
        MutexLock lock(mutex_);
        entries_.emplace_back(parent, name);
    }
    void node_changed(NodeId node) override {
        MutexLock lock(mutex_);
        nodes_.push_back(node);
    }
    std::vector<std::pair<NodeId, std::string>> take_entries() {
        MutexLock lock(mutex_);
        return std::exchange(entries_, {});
    }
    std::vector<NodeId> take_nodes() {
        MutexLock lock(mutex_);
        return std::exchange(nodes_, {});
    }

  private:
    Mutex mutex_;
    std::vector<std::pair<NodeId, std::string>> entries_ TIERFS_GUARDED_BY(mutex_);
    std::vector<NodeId> nodes_ TIERFS_GUARDED_BY(mutex_);
};

class NamesFixture : public testing::Test {
  protected:
    using milliseconds = std::chrono::milliseconds;
    using View = Result<NodeView>;
    using Items = Result<std::vector<DirectoryItem>>;

    void SetUp() override {
        std::string path = (std::filesystem::temp_directory_path() / "tierfs-names-XXXXXX").string();
        ASSERT_NE(::mkdtemp(path.data()), nullptr);
        root_ = path;
        origin_ = std::make_unique<FakeOrigin>(1);
    }
    void TearDown() override {
        close();
        std::filesystem::remove_all(root_);
    }

    void open(milliseconds ttl = milliseconds(60000), std::uint64_t memory = 4 << 20) {
        auto index = Index::open({.directory = root_ / "index", .memory = 4 << 20, .source = "fake:/"});
        ASSERT_TRUE(index) << index.error().message;
        index_ = std::move(*index);
        NamespaceOptions options;
        options.ttl = ttl;
        options.serves_stale = serves_stale_;
        options.memory = memory;
        options.now = [this] { return now_.load(); };
        options.workers = options.most_workers = workers_;
        options.rules = std::make_shared<const DatasetRules>(rules_, DatasetClass::automatic);
        options.waiting_clock = [this] { return waited_.load(); };
        auto names = open_namespace(options, *index_, *origin_, sink_);
        ASSERT_TRUE(names) << names.error().message;
        names_ = std::move(*names);
    }
    void close() {
        origin_->release();
        names_.reset();
        index_.reset();
    }
    void reopen(milliseconds ttl = milliseconds(60000)) {
        close();
        open(ttl);
    }
    void pass(milliseconds time) { now_ += time.count() * 1'000'000; }

    std::future<View> start_lookup(NodeId parent, const std::string& name) {
        auto promise = std::make_shared<std::promise<View>>();
        auto answer = promise->get_future();
        names_->lookup(parent, name, [promise](View view) { promise->set_value(std::move(view)); });
        return answer;
    }
    View lookup(NodeId parent, const std::string& name) { return await(start_lookup(parent, name)); }
    std::future<View> start_attributes(NodeId node) {
        auto promise = std::make_shared<std::promise<View>>();
        auto answer = promise->get_future();
        names_->attributes(node, [promise](View view) { promise->set_value(std::move(view)); });
        return answer;
    }
    View attributes(NodeId node) { return await(start_attributes(node)); }
    std::future<Items> start_read(NodeId directory, std::uint64_t after, std::size_t limit) {
        auto promise = std::make_shared<std::promise<Items>>();
        auto answer = promise->get_future();
        names_->read_directory(directory, after, limit,
                               [promise](Items items) { promise->set_value(std::move(items)); });
        return answer;
    }
    Items read(NodeId directory, std::uint64_t after = 0, std::size_t limit = 100000) {
        return await(start_read(directory, after, limit));
    }
    Result<std::string> read_link(NodeId node) { return await(start_read_link(node)); }
    std::future<Result<std::string>> start_read_link(NodeId node) {
        auto promise = std::make_shared<std::promise<Result<std::string>>>();
        auto answer = promise->get_future();
        names_->read_link(node, [promise](Result<std::string> text) { promise->set_value(std::move(text)); });
        return answer;
    }
    /// Names without "." and "..".
    std::vector<std::string> names_of(NodeId directory) {
        std::vector<std::string> names;
        const auto items = read(directory);
        EXPECT_TRUE(items) << items.error().message;
        if (!items) return names;
        for (const auto& item : *items) {
            if (item.cookie > 2) names.push_back(item.name);
        }
        return names;
    }
    NodeView must(const View& view) {
        EXPECT_TRUE(view) << view.error().message;
        return view ? *view : NodeView{};
    }
    NodeView find(NodeId parent, const std::string& name) { return must(lookup(parent, name)); }
    template <typename T>
    static T await(std::future<T> future) {
        if (future.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
            ADD_FAILURE() << "no answer";
            std::abort();
        }
        return future.get();
    }
    static int code(const View& view) { return view ? 0 : view.error().code; }

    std::filesystem::path root_;
    std::atomic<std::int64_t> now_{1'700'000'000'000'000'000};
    std::atomic<std::int64_t> waited_{0};  ///< what the time in queues is measured with
    unsigned workers_ = 8;
    bool serves_stale_ = false;       ///< of `open`
    std::vector<DatasetRule> rules_;  ///< of `open`
    RecordingSink sink_;
    std::unique_ptr<FakeOrigin> origin_;
    std::unique_ptr<Index> index_;
    std::unique_ptr<Namespace> names_;
};

}  // namespace tierfs
