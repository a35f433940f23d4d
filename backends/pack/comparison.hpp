// Compares a source with its pack.
#pragma once

#include <functional>

#include "backends/origin/origin.hpp"
#include "backends/pack/changes.hpp"
#include "backends/pack/index.hpp"

namespace tierfs::pack {

struct ComparisonOptions {
    bool owners = true;             ///< modes and owners are the source's own (not those of settings)
    std::size_t most = 0;           ///< names that may differ; with more the answer is `too_many` alone
    unsigned threads = 4;           ///< so many directories at a time
    std::function<bool()> stopped;  ///< asked in between, on any thread
};

/// Lists all of `source`, page by page, and says what is not as in `index`. A directory that vanishes
/// meanwhile is empty. Memory: what differs, and 16 bytes for each name of the directories that are being
/// listed. Errors: the first of a listing; ECANCELED.
Result<Changes> compare(PackIndex& index, Origin& source, const ComparisonOptions& options);

}  // namespace tierfs::pack
