// All names of a dataset that is to be packed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/pack/format.hpp"

namespace tierfs::pack {

/// `problems`: what keeps the tree from being whole (a listing that failed). `remarks`: what cannot be in a
/// pack (sockets, keys that are no paths).
struct Tree {
    std::vector<Entry> entries;  ///< in the order of their keys; the first is the root
    std::vector<std::string> problems, remarks;
};

/// Lists `origin` from its root, several directories at a time. `stopped` is asked in between, on any thread;
/// ECANCELED then. An error: the root cannot be listed.
Result<Tree> list_tree(Origin& origin, const std::function<bool()>& stopped);

}  // namespace tierfs::pack
