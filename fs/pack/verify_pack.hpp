// Compares all that a pack holds with its checksums.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/origin/origin.hpp"
#include "backends/pack/manifest.hpp"

namespace tierfs::pack {

struct PackReport {
    Manifest manifest;
    std::uint64_t extents = 0, files = 0, bytes = 0;  ///< looked at so far; files and bytes: packed ones
    std::uint64_t bad = 0;
    struct Bad {
        std::string file, what;
    };
    std::vector<Bad> first_bad;  ///< up to kMostBad
};
inline constexpr std::size_t kMostBad = 1000;

/// Reads manifest, index and every extent of the pack in `dest`. `tell` is called every now and then. Takes
/// 70 MiB of memory, and a file without a name in the directory for temporary ones. An error: the manifest or
/// the index cannot be read, or is damaged.
Result<PackReport> verify_pack(Origin& dest, const std::function<void(const PackReport&)>& tell);

}  // namespace tierfs::pack
