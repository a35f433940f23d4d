// Reads back what an extent file holds from its chunk tables alone.
#pragma once

#include <cstdint>
#include <functional>

#include "backends/disk/disk_file.hpp"
#include "backends/extent/format.hpp"
#include "config/base/result.hpp"

namespace tierfs {

struct ExtentScan {
    std::uint64_t end = 0;     ///< where the last good chunk ends
    bool intact = true;        ///< chunks follow each other from 0 to `end`, and only zeros or nothing follow
    std::uint64_t chunks = 0;  ///< good ones
};

/// Calls `each` for every good chunk in order, until it says false. Behind a damaged chunk it looks on, page
/// by page, for the next one. Reads tables only, not data, as long as nothing is damaged. Blocks for the
/// device. Errors: those of reading.
Result<ExtentScan> scan_extent(const DiskFile& file, const ExtentUuid& uuid,
                               const std::function<bool(const ChunkTable&)>& each);

}  // namespace tierfs
