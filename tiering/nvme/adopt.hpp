// Adoption of the files that a tier finds when it is opened. Internal to tiering/nvme.
#pragma once

#include <cstdint>
#include <vector>

#include "tiering/nvme/space.hpp"

namespace tierfs {

struct FoundUnits {
    std::vector<Unit> units;        ///< oldest first
    std::uint64_t next_number = 1;  ///< above every extent found
};

/// Makes extents/ and files/.
Result<void> make_folders(const NvmeCore& core);

/// Lists the folders them (names and stat only) and fills the catalog. Halves of backing files are
/// unlinked; names that are not ours are left alone. Errors: the folders cannot be read.
Result<FoundUnits> find_units(NvmeCore& core);

/// Looks after one unit left by an earlier run; for the writer thread, in the background. An extent none of
/// whose entries the index knows is taken in from its chunk tables; its unused end is given back. A backing
/// file that the index does not know is taken in from its sidecar, or unlinked.
void adopt_unit(NvmeCore& core, SpaceKeeper& space, const Unit& unit);

}  // namespace tierfs
