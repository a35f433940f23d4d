// The link farm: one folder of symbolic links that shows files of several destinations as one tree.
#pragma once

#include <string>

#include "config/base/result.hpp"

namespace tierfs::stage {

/// FARM/path -> DESTINATION/path. A link of another destination is replaced by rename; what is no symbolic
/// link of a farm (its target does not end with "/path") is left alone: EEXIST.
Result<void> link_into_farm(const std::string& farm, const std::string& path, const std::string& destination);

/// Removes such a link and folders that are empty then.
Result<void> unlink_from_farm(const std::string& farm, const std::string& path);

}  // namespace tierfs::stage
