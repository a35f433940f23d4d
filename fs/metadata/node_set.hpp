// A set of node ids that are mostly consecutive. Internal to fs/metadata.
#pragma once

#include <iterator>
#include <map>

#include "tiering/index/index.hpp"

namespace tierfs {

/// Runs of ids: the nodes of a directory were handed out in listing order, so that the set of a million of
/// them is a handful of runs. Not thread-safe.
class NodeSet {
  public:
    [[nodiscard]] bool contains(NodeId node) const {
        const auto after = runs_.upper_bound(node);
        return after != runs_.begin() && node <= std::prev(after)->second;
    }

    void insert(NodeId node) {
        if (contains(node)) return;
        auto after = runs_.upper_bound(node);
        NodeId last = node;
        if (after != runs_.end() && after->first == node + 1) {
            last = after->second;
            after = runs_.erase(after);
        }
        if (after != runs_.begin()) {
            const auto before = std::prev(after);
            if (before->second + 1 == node) {
                before->second = last;
                return;
            }
        }
        runs_.emplace_hint(after, node, last);
    }

    [[nodiscard]] std::size_t runs() const { return runs_.size(); }

  private:
    std::map<NodeId, NodeId> runs_;  ///< first -> last, neither touching nor overlapping
};

}  // namespace tierfs
