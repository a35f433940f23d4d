// Knowledge of names and nodes: the index behind caches, and how fresh it is. Internal to fs/metadata.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/base/sharded_lru.hpp"
#include "config/dataset_rules.hpp"
#include "fs/metadata/namespace.hpp"

namespace tierfs {

using NodePtr = std::shared_ptr<const NodeRecord>;

/// `checked_ns` of a node whose version is known to be gone: nothing makes it fresh but the origin.
inline constexpr std::int64_t kDistrusted = -1;

/// Under this parent stand nodes that no name leads to any more, as "SESSION NODE" (16 hexadecimal digits
/// each): what the next session collects. Not a directory that anybody can see.
inline constexpr NodeId kOrphans = 2;

inline constexpr std::size_t kLongestName = 255;
inline constexpr std::size_t kDeepestPath = 4096;
inline constexpr std::size_t kLongestPath = 64 << 10;

std::string orphan_name(NodeId session, NodeId node);

/// A name in a directory. Its hash is made once: tables ask for it of each key that they pass on their way.
struct NameKey {
    NameKey() : NameKey(0, "") {}
    NameKey(NodeId parent_, std::string name_)
        : hash(std::hash<std::string>()(name_) ^ (parent_ * 0x9E3779B97F4A7C15U)),
          parent(parent_),
          name(std::move(name_)) {}
    std::size_t hash;  ///< of the others
    NodeId parent;
    std::string name;
    friend bool operator==(const NameKey&, const NameKey&) = default;
};

struct NameKeyHash {
    std::size_t operator()(const NameKey& key) const noexcept { return key.hash; }
};

/// Whether the origin could not be asked at all, so that what was fresh once may be served a while longer.
bool is_unreachable(const Error& error);

/// Freshness of answers, in CLOCK_REALTIME nanoseconds (they are kept over restarts). Immutable.
class Freshness {
  public:
    /// `serves_stale`: while the origin cannot be asked, what was fresh once is served without a limit.
    Freshness(std::chrono::milliseconds ttl, bool serves_stale, std::function<std::int64_t()> now);

    [[nodiscard]] std::int64_t now() const { return now_(); }
    [[nodiscard]] bool forever() const { return forever_; }
    /// Time left for something that the origin confirmed at `confirmed_ns`; nothing when that is over. A time
    /// in the future (the clock went back) confirms nothing.
    [[nodiscard]] std::optional<std::chrono::milliseconds> left(std::int64_t confirmed_ns) const;
    /// Whether an answer of `earlier` is much older than one of `later`: a part of metadata.ttl lies between.
    [[nodiscard]] bool differs(std::int64_t earlier_ns, std::int64_t later_ns) const;
    /// Whether it may be served though the origin cannot be asked: without a limit, or up to one more TTL; never where
    /// the TTL is 0.
    [[nodiscard]] bool servable(std::int64_t confirmed_ns) const;
    /// How long the kernel may keep an answer that is served so: short, but long enough not to ask a dead
    /// origin for each call.
    [[nodiscard]] std::chrono::milliseconds stale_for() const;
    [[nodiscard]] std::chrono::milliseconds negative_ttl() const;

  private:
    std::chrono::milliseconds ttl_;
    bool serves_stale_;
    bool forever_;
    std::function<std::int64_t()> now_;
};

/// Changes of one directory's names, gathered while its turn is held: index and caches change together.
/// Not thread-safe.
class Changes {
  public:
    explicit Changes(Index& index) : batch_(index.batch()) {}

    void put_node(NodeId node, NodeRecord record);
    void put_name(NodeId parent, const std::string& name, NodeId node, ObjectKind kind);
    void erase_name(NodeId parent, const std::string& name);
    /// A name no longer leads to `old`: the kernel is told, the next session collects the node.
    void orphan(NodeId session, NodeId old, const NodeRecord& record);
    IndexBatch& batch() { return *batch_; }

  private:
    friend class NodeTable;
    struct Event {
        NodeId parent;
        std::string name;
        NodeId old;
    };
    /// Names and nodes come into it by themselves, in the end: an index that is sorted takes neighbours faster than
    /// what lies far apart by turns.
    std::unique_ptr<IndexBatch> batch_;
    std::vector<std::pair<NodeId, NodePtr>> nodes_;
    std::vector<std::pair<NameKey, NameRecord>> names_;  ///< node 0: erased
    std::vector<Event> events_;
};

/// A name and all that is known about what it leads to.
struct Known {
    NodeId node = 0;
    NodePtr record;
};

/// Thread-safe; blocks for the index at most. Errors: EIO of the index.
class NodeTable {
  public:
    /// `rules`: to count files by; may be null.
    NodeTable(Index& index, std::uint64_t memory, std::string identity, InvalidationSink& sink,
              std::shared_ptr<const DatasetRules> rules = nullptr);

    /// Null: not known. The root is always known.
    Result<NodePtr> node(NodeId node);
    /// As many calls of node(), in one pass over the index.
    Result<std::vector<NodePtr>> nodes(std::span<const NodeId> nodes);
    /// What a name leads to; nothing when it is not known or its records contradict each other.
    Result<std::optional<Known>> name(NodeId parent, const std::string& name);
    /// The same, of a name that the index says leads there.
    Result<std::optional<Known>> leading_to(NodeId node, NodeId parent, const std::string& name);
    /// Whether the node's own name still leads to it. True for the root.
    Result<bool> is_current(NodeId node, const NodeRecord& record);
    /// Path at the origin. ESTALE: a node on the way is not known. ENAMETOOLONG.
    Result<std::string> path(NodeId node);
    Result<std::string> path(NodeId parent, const std::string& name);
    /// The node that a path leads to ("" is the root); nothing when it is not known.
    std::optional<NodeId> node_of(const std::string& path);
    Result<std::shared_ptr<const ObjectRef>> object(NodeId node);
    [[nodiscard]] ContentId content(const std::string& path, const std::string& version) const;

    /// When the answer about a name was last confirmed: by itself or with its whole directory. Times after
    /// `now` do not count (the clock went back).
    Result<std::int64_t> confirmed(const NodeRecord& record, std::int64_t now);
    /// When a directory was last listed in full; 0: never, or after `now`.
    Result<std::int64_t> listed(NodeId directory, std::int64_t now);

    /// Commits, then updates the caches. The caller holds the directory's turn, and calls `announce` after
    /// it gave the turn back.
    Result<void> commit(Changes& changes);
    void announce(const Changes& changes);

    /// Grows when a commit is done, and with `doubt`: what was read at a smaller number may be out of date.
    [[nodiscard]] std::uint64_t changes() const { return changes_; }
    /// What is known of some node is not to be trusted from now on.
    void doubt() { ++changes_; }

    [[nodiscard]] bool known_absent(NodeId parent, const std::string& name, std::int64_t now);
    /// How long the name is known to be absent yet, listings apart; 0: it is not.
    [[nodiscard]] std::chrono::milliseconds absent_left(NodeId parent, const std::string& name,
                                                        std::int64_t now);
    void remember_absent(NodeId parent, const std::string& name, std::int64_t until);
    void forget_absent(NodeId parent, const std::string& name) { absent_.erase({parent, name}); }

    [[nodiscard]] std::uint64_t known_nodes() { return nodes_.size(); }
    Index& index() { return index_; }
    FileSizeCounter& sizes() { return sizes_; }
    /// As FileSizeCounter counts them; empty: there are no rules.
    [[nodiscard]] std::vector<std::uint64_t> files_by_rule() const;
    /// A file became known.
    void count_file(const NodeRecord& record);

  private:
    Result<std::optional<NodeId>> leads_to(NodeId parent, const std::string& name);

    Index& index_;
    const std::string identity_;
    InvalidationSink& sink_;
    ShardedLru<NodeId, NodePtr> nodes_;
    ShardedLru<NameKey, NodeId, NameKeyHash> names_;
    ShardedLru<NodeId, std::shared_ptr<const ObjectRef>> objects_;
    ShardedLru<NameKey, std::int64_t, NameKeyHash> absent_;
    FileSizeCounter sizes_;
    const std::shared_ptr<const DatasetRules> rules_;  ///< null: none but the implicit one
    std::vector<std::atomic<std::uint64_t>> by_rule_;
    std::atomic<std::uint64_t> changes_{0};
};

}  // namespace tierfs
