// An Index in memory, for tests of the NVMe tier: locations only.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/base/mutex.hpp"
#include "tiering/index/index.hpp"

namespace tierfs::testing {

/// Keeps its records as long as it lives, so that a tier can be opened on it again. Thread-safe.
class FakeIndex final : public Index {
  public:
    class Batch final : public IndexBatch {
      public:
        void put_name(NodeId, std::string_view, const NameRecord&) override {}
        void erase_name(NodeId, std::string_view) override {}
        void put_node(NodeId, const NodeRecord&) override {}
        void erase_node(NodeId) override {}
        void put_listing(NodeId, const ListingRecord&) override {}
        void erase_listing(NodeId) override {}
        void put_location(const ContentId& id, std::string_view location) override {
            changes.emplace_back(id, std::string(location));
        }
        void erase_location(const ContentId& id) override { changes.emplace_back(id, std::nullopt); }
        [[nodiscard]] std::size_t bytes() const override { return changes.size() * 32; }

        std::vector<std::pair<ContentId, std::optional<std::string>>> changes;
    };

    Result<std::optional<NameRecord>> find_name(NodeId, std::string_view) override { return std::nullopt; }
    Result<std::optional<NodeRecord>> find_node(NodeId) override { return std::nullopt; }
    Result<void> find_nodes(std::span<const NodeId>,
                            const std::function<void(NodeId, NodeRecord)>&) override {
        return {};
    }
    Result<std::optional<ListingRecord>> find_listing(NodeId) override { return std::nullopt; }
    Result<std::optional<std::string>> find_location(const ContentId& id) override {
        MutexLock lock(mutex_);
        ++lookups_;
        const auto found = locations_.find(id);
        if (found == locations_.end()) return std::optional<std::string>();
        return std::optional<std::string>(found->second);
    }
    Result<void> for_each_name(NodeId, std::string_view,
                               const std::function<bool(std::string_view, const NameRecord&)>&) override {
        return {};
    }
    Result<void> for_each_location(
        const std::function<bool(const ContentId&, std::string_view)>& each) override {
        MutexLock lock(mutex_);
        const auto copy = locations_;
        lock.unlock();
        for (const auto& [id, text] : copy) {
            if (!each(id, text)) break;
        }
        return {};
    }
    Result<void> for_each_listing(const std::function<bool(NodeId, const ListingRecord&)>&) override {
        return {};
    }
    std::unique_ptr<IndexBatch> batch() override { return std::make_unique<Batch>(); }
    Result<void> commit(std::unique_ptr<IndexBatch> batch) override {
        auto& changes = static_cast<Batch&>(*batch).changes;
        MutexLock lock(mutex_);
        largest_batch_ = std::max(largest_batch_, batch->bytes());
        if (failures_ > 0) {
            --failures_;
            return fail(EIO, "made to fail");
        }
        for (auto& [id, text] : changes) {
            if (text) {
                locations_[id] = std::move(*text);
            } else {
                locations_.erase(id);
            }
        }
        return {};
    }
    Result<NodeId> allocate_node() override { return kFirstNode; }
    [[nodiscard]] bool is_new() const override { return false; }
    [[nodiscard]] std::uint64_t memory_bytes() const override { return 0; }

    void lose_everything() {
        MutexLock lock(mutex_);
        locations_.clear();
    }
    /// So many commits fail from now on.
    void fail_commits(unsigned count) {
        MutexLock lock(mutex_);
        failures_ = count;
    }
    std::size_t largest_batch() {
        MutexLock lock(mutex_);
        return largest_batch_;
    }
    void lose(const ContentId& id) {
        MutexLock lock(mutex_);
        locations_.erase(id);
    }
    std::size_t size() {
        MutexLock lock(mutex_);
        return locations_.size();
    }
    std::size_t lookups() {
        MutexLock lock(mutex_);
        return lookups_;
    }
    void put(const ContentId& id, std::string text) {
        MutexLock lock(mutex_);
        locations_[id] = std::move(text);
    }

  private:
    Mutex mutex_;
    std::map<ContentId, std::string> locations_ TIERFS_GUARDED_BY(mutex_);
    std::size_t lookups_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::size_t largest_batch_ TIERFS_GUARDED_BY(mutex_) = 0;
    unsigned failures_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs::testing
