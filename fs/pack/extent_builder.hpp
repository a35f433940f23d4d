// Makes an extent of a pack from the files at the source, or learns what is in one that is there already.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "backends/origin/origin.hpp"
#include "backends/pack/format.hpp"
#include "fs/pack/plan.hpp"

namespace tierfs::pack {

/// How far a pack is. Thread-safe.
struct Progress {
    std::atomic<std::uint64_t> files_total{0}, bytes_total{0};   ///< of what goes into extents
    std::atomic<std::uint64_t> files{0}, bytes{0};               ///< that are published
    std::atomic<std::uint64_t> bytes_read{0}, bytes_written{0};  ///< of the source; to DEST
};

/// Where the planned files are, in their order.
using Places = std::vector<Place>;

struct BuiltExtent {
    std::vector<std::byte> bytes;
    Places places;
};

/// `entries` are those of the plan, `source` is Origin::identity. Places have the number `extent`.
struct ExtentJob {
    const std::vector<Entry>& entries;
    const std::string& source;
    const PlannedExtent& plan;
    std::uint32_t number;
    PackingCodec codec;
};

/// Reads the files, many at a time, each in the version that was listed. Errors: the origin's, with the path;
/// ECANCELED once `stopped` says so.
Result<BuiltExtent> build_extent(Origin& origin, const ExtentJob& job, Progress& progress,
                                 const std::function<bool()>& stopped);

/// What `dest` holds of the extent, from its tables alone: it has `bytes` bytes. Nothing when it is not the
/// very one that the plan describes, or cannot be read.
std::optional<Places> find_extent(Origin& dest, const ExtentJob& job, std::uint64_t bytes);

}  // namespace tierfs::pack
