// System calls behind `tierfs-stage check`: the kernel's answers about a place on this machine.
#pragma once

#include <string>

#include "config/base/result.hpp"
#include "fs/gds/finding.hpp"
#include "fs/gds/place.hpp"

namespace tierfs::stage {

/// statfs, statx and the line of /proc/self/mountinfo of a folder or a file. To learn what direct I/O asks
/// for, it opens a file without a name in the folder, which nobody sees and which is gone at once. Errors:
/// those of statfs.
Result<gds::Place> look_at_place(const std::string& path);

/// Writes 4 MiB to a file without a name in the folder (or beside the file) by direct I/O, reads them back
/// and sees whether they went past the page cache: the findings direct-io and extents.
gds::Findings try_direct_io(const std::string& path);

}  // namespace tierfs::stage
