// Decides what a fresh answer of the origin makes of a name: the same node, changed attributes, a new node,
// none. Internal to fs/metadata.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "fs/metadata/node_table.hpp"

namespace tierfs {

/// Keys that are no paths, summed over all directories listed. Thread-safe.
class HiddenTotals {
  public:
    using Counts = std::map<std::string, std::uint64_t>;
    void add(const Counts& counts);
    void subtract(const Counts& counts);
    [[nodiscard]] Counts get() const;

  private:
    mutable Mutex mutex_;
    Counts counts_ TIERFS_GUARDED_BY(mutex_);
};

/// Thread-safe; but each call changes names of one directory, whose turn the caller holds until it committed.
class Merger {
  public:
    Merger(NodeTable& table, const Freshness& freshness, HiddenTotals& hidden, NodeId session)
        : table_(table), freshness_(freshness), hidden_(hidden), session_(session) {}

    /// Same object with the same attributes in full.
    [[nodiscard]] static bool is_same(const Attributes& a, const Attributes& b);

    /// True when what is known was asked of the origin later than `started`: an older answer must not undo
    /// it.
    [[nodiscard]] bool is_newer(const NodeRecord& known, std::int64_t started) const;

    /// Takes in that `name` had these attributes when the origin was asked at `started`. `existing` is what
    /// the table knows of it. Returns what the name leads to after the commit.
    Result<Known> found(Changes& changes, NodeId parent, const std::string& path, const std::string& name,
                        Attributes attributes, std::int64_t started, const std::optional<Known>& existing);

    /// Takes in that the name is gone.
    Result<void> vanished(Changes& changes, const Known& known);

  private:
    Result<void> retire(Changes& changes, const Known& known);

    NodeTable& table_;
    const Freshness& freshness_;
    HiddenTotals& hidden_;
    const NodeId session_;
};

}  // namespace tierfs
