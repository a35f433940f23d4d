// The order of a pack's first files: a list of paths that somebody made, mostly the order in which files were
// read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/pack/format.hpp"

namespace tierfs::pack {

/// Files in the order of a list, each once.
struct PackingOrder {
    std::vector<std::size_t> files;  ///< places in the list of entries
    std::uint64_t unknown = 0;       ///< lines that name no file
};

/// `list`: a path a line, below the root; empty lines count for nothing, and "./" at the beginning of one
/// neither. Paths that begin with '/' are those of a mount, or of the source's folder: the shortest beginning
/// that leaves the path of a file is taken from all of them; the first line where there is one says which.
/// `entries`: in the order of their keys. Pure.
PackingOrder parse_order(std::string_view list, const std::vector<Entry>& entries);

}  // namespace tierfs::pack
