// The validity of an answer: metadata.ttl, or for ever where a rule says that nothing changes. Internal to
// fs/metadata.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/dataset_rules.hpp"
#include "fs/metadata/node_table.hpp"

namespace tierfs {

/// Freshness, and the rules with `immutable`. Costs the path of a node where there is such a rule, and
/// nothing where there is none. Thread-safe; blocks for the index at most.
class Validity {
  public:
    /// `rules` may be null.
    Validity(NodeTable& table, const Freshness& freshness, std::shared_ptr<const DatasetRules> rules)
        : table_(table),
          freshness_(freshness),
          rules_(rules && rules->has_immutable() ? std::move(rules) : nullptr) {}

    /// Of a node that the origin confirmed at that time; nothing: ask again.
    [[nodiscard]] std::optional<std::chrono::milliseconds> left(const NodeRecord& record,
                                                                std::int64_t confirmed_ns) const;
    /// Of a directory's listing.
    [[nodiscard]] std::optional<std::chrono::milliseconds> listing_left(NodeId directory,
                                                                        std::int64_t listed_ns) const;
    /// Whether the kernel may keep a listing for good.
    [[nodiscard]] bool keeps_listing(NodeId directory) const;

  private:
    [[nodiscard]] bool never_changes(const NodeRecord& record) const;

    NodeTable& table_;
    const Freshness& freshness_;
    const std::shared_ptr<const DatasetRules> rules_;  ///< null: no rule says so
};

}  // namespace tierfs
