// Index on RocksDB, whose headers this one includes. Internal to tiering/index.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <string>
#include <string_view>

#include "config/base/mutex.hpp"
#include "tiering/index/index.hpp"
#include "tiering/index/rocks_cache.hpp"

namespace tierfs {

/// The same bytes, in RocksDB's words.
inline rocksdb::Slice slice(std::string_view text) {
    return {text.data(), text.size()};
}

/// An IndexBatch as a rocksdb::WriteBatch. Not thread-safe, as every batch.
class RocksBatch final : public IndexBatch {
  public:
    void put_name(NodeId parent, std::string_view name, const NameRecord& record) override;
    void erase_name(NodeId parent, std::string_view name) override;
    void put_node(NodeId node, const NodeRecord& record) override;
    void erase_node(NodeId node) override;
    void put_listing(NodeId directory, const ListingRecord& record) override;
    void erase_listing(NodeId directory) override;
    void put_location(const ContentId& id, std::string_view location) override;
    void erase_location(const ContentId& id) override;
    [[nodiscard]] std::size_t bytes() const override { return batch_.GetDataSize(); }
    rocksdb::WriteBatch& writes() { return batch_; }

  private:
    rocksdb::WriteBatch batch_;
};

/// See Index. The lock guards the run of node ids alone and is never held across a write.
class RocksIndex final : public Index {
  public:
    RocksIndex(const IndexOptions& options, std::unique_ptr<rocksdb::DB> database,
               std::shared_ptr<rocksdb::Cache> cache, bool is_new, NodeId next);
    ~RocksIndex() override;

    Result<std::optional<NameRecord>> find_name(NodeId parent, std::string_view name) override;
    Result<std::optional<NodeRecord>> find_node(NodeId node) override;
    Result<void> find_nodes(std::span<const NodeId> nodes,
                            const std::function<void(NodeId, NodeRecord)>& each) override;
    Result<std::optional<ListingRecord>> find_listing(NodeId directory) override;
    Result<std::optional<std::string>> find_location(const ContentId& id) override;
    Result<void> for_each_name(NodeId parent, std::string_view after,
                               const std::function<bool(std::string_view, const NameRecord&)>& each) override;
    Result<void> for_each_location(
        const std::function<bool(const ContentId&, std::string_view)>& each) override;
    Result<void> for_each_listing(const std::function<bool(NodeId, const ListingRecord&)>& each) override;
    [[nodiscard]] std::unique_ptr<IndexBatch> batch() override;
    Result<void> commit(std::unique_ptr<IndexBatch> batch) override;
    Result<NodeId> allocate_node() override;
    [[nodiscard]] bool is_new() const override { return is_new_; }
    [[nodiscard]] std::uint64_t memory_bytes() const override;

  private:
    /// How many of the first of `nodes` one pass of an iterator dealt with: all but after an error.
    std::size_t pass_over(std::span<const NodeId> nodes, const std::function<void(NodeId, NodeRecord)>& each);
    /// The value of a key, decoded; nothing when it is absent, garbled, or in a block that does not verify.
    template <typename T, typename Decode>
    Result<std::optional<T>> find(const std::string& key, std::string_view what, Decode decode);
    /// Calls `each` with keys and values from `from` up to `end` (excluded) until it says false. Starts over
    /// behind the last key without the cache when the strict cache has no room left.
    Result<void> scan(std::string from, const std::string& end, bool one_prefix,
                      const std::function<bool(std::string_view, std::string_view)>& each);
    rocksdb::Status write(rocksdb::WriteBatch& writes);
    Error failed(const rocksdb::Status& status, std::string_view doing) const;
    void count_garbled(std::string_view what);
    void found_damage(const rocksdb::Status& status);

    const std::filesystem::path directory_;
    const std::unique_ptr<rocksdb::DB> database_;
    const std::shared_ptr<rocksdb::Cache> cache_;
    const bool is_new_;
    std::atomic<std::uint64_t> garbled_{0};
    std::atomic<bool> damaged_{false};
    /// A name may be missing that was there: no listing is complete any more.
    std::atomic<bool> listings_doubtful_{false};

    Mutex one_writer_;  ///< under ThreadSanitizer only
    Mutex mutex_;
    std::condition_variable reserved_more_;
    NodeId next_ TIERFS_GUARDED_BY(mutex_);
    NodeId reserved_ TIERFS_GUARDED_BY(mutex_);  ///< ids below are ours to hand out
    bool reserving_ TIERFS_GUARDED_BY(mutex_) = false;
};

}  // namespace tierfs
