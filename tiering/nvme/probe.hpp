// A probe of a device: can it be written and read? Internal to tiering/nvme.
#pragma once

#include <filesystem>

#include "config/base/result.hpp"

namespace tierfs {

/// Writes a page to the file "probe" in the folder, syncs it, reads it back past the page cache where the
/// file system can, and removes the file. Blocks for the device. Errors: those of the device; EIO when other
/// bytes come back.
Result<void> probe_device(const std::filesystem::path& folder);

}  // namespace tierfs
