// Tar shards: the samples of a dataset, in its order, packed into few large files, as WebDataset and others
// read them.
//
// POSIX tars (ustar headers; pax headers only for what ustar cannot say) without compression, with owner,
// group and times of zero, so that the same samples give the same bytes. Written by libarchive.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/iobench/data/dataset.hpp"
#include "bench/iobench/data/files.hpp"

namespace tierfs::iobench {

/// A run of consecutive samples.
struct ShardRange {
    std::uint64_t first, count;
};

/// Every sample is in exactly one range, in order; no range is empty. `sizes` in bytes.
std::vector<ShardRange> divide(const ShardPlan& plan, std::span<const std::uint64_t> sizes);

/// "shards/00012.tar", relative to the dataset.
std::string shard_path(std::uint64_t index);

/// Hands the bytes of a shard of `members` (files of the dataset in `directory`, which have to hold what the
/// entries say, or it is EIO) to `sink` in order, and puts into `entries` where each member's bytes lie.
/// Thread-safe.
Result<void> produce_shard(const std::string& directory, const std::string& shard,
                           std::span<const ManifestEntry> members, std::span<IndexEntry> entries,
                           const Sink& sink);

}  // namespace tierfs::iobench
