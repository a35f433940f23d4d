// Places of files in the extents of a pack that is to be made, as indexes say that know some of them: that of
// an earlier generation, or those of the shards of a run.
#pragma once

#include <memory>
#include <vector>

#include "backends/pack/index.hpp"
#include "fs/pack/extent_builder.hpp"
#include "fs/pack/plan.hpp"

namespace tierfs::pack {

struct KnownExtent {
    Places places;            ///< of its files, in the order of the plan
    std::uint64_t bytes = 0;  ///< of the extent
};

/// For each extent of the plan; nothing where no index has it. An extent is named by all that is in
/// it, so that one of the same name has the same files at the same places. Extents themselves are not read:
/// whether they are still there is not known.
using KnownExtents = std::vector<std::optional<KnownExtent>>;

/// `entries` are those of the plan, in the order of their keys. Errors: those of the indexes.
Result<KnownExtents> known_extents(const std::vector<std::unique_ptr<PackIndex>>& indexes,
                                   const std::vector<Entry>& entries, const std::vector<PlannedExtent>& plan);

}  // namespace tierfs::pack
