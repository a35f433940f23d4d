// Parts of an index: each shard of a run publishes one, and the shard that finds all of them joins them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/pack/format.hpp"
#include "config/base/units.hpp"
#include "fs/pack/plan.hpp"

namespace tierfs::pack {

/// Whether the shard makes the extent of this number.
constexpr bool is_of_shard(const Share& shard, std::size_t extent) {
    return extent % shard.count == shard.index;
}

/// What is packed and how: shards that see another state of the source, or are given other options, get
/// another one. `entries` have no places yet. Errors: those of IndexWriter.
Result<ContentId> digest_of_plan(const std::vector<Entry>& entries, const std::vector<PlannedExtent>& plan);

/// In DEST: part-DIGEST-I-N.
std::string part_name(const ContentId& plan, const Share& shard);
bool is_part_name(std::string_view name);

/// An index (format.hpp) of the extents of the shard, and of the files in them alone. `extents` and the
/// places of `entries` are those of the plan.
Result<std::string> encode_part(const std::vector<Entry>& entries, const std::vector<Extent>& extents,
                                const Share& shard);

}  // namespace tierfs::pack
