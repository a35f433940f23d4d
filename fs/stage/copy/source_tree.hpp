// All files of a source, listed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/origin/origin.hpp"

namespace tierfs::stage {

/// A file or a symbolic link of the source.
struct SourceFile {
    std::string path;  ///< relative, clean
    Attributes attributes;
    std::string link;  ///< target of a symbolic link
};

/// What a walk found. `problems` are things that cannot be staged (two things of one name, a listing that
/// failed): the tree is then not whole and nothing may be removed by it. `remarks` are about what cannot be
/// in a dataset (sockets, keys that are no paths).
struct SourceTree {
    std::vector<SourceFile> files;  ///< sorted by path
    std::vector<std::string> problems, remarks;
};

/// Lists `origin` from its root, a few folders at a time. `stopped` is asked in between; ECANCELED then.
/// An error: the root cannot be listed.
Result<SourceTree> list_source(Origin& origin, const std::function<bool()>& stopped);

/// Shard `number` of `count` (1-based) that a path belongs to: XXH3 of the path, so that it is the same in
/// every process.
unsigned shard_of(const std::string& path, unsigned count);

}  // namespace tierfs::stage
