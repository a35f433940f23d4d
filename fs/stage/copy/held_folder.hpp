// A folder that a path named once, held by a descriptor.
#pragma once

#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs::stage {

/// Where a path led when it was followed; what becomes of its names later makes no difference. Movable.
struct HeldFolder {
    FileDescriptor fd;  ///< O_RDONLY | O_DIRECTORY
    std::string path;   ///< absolute, without links, as it was then

    /// Follows `path` name by name. For root, a symbolic link counts only when it is root's or belongs to the
    /// owner of what it leads to: in a folder of a user it must not lead root to files that the user could not
    /// have. EACCES otherwise, with the link; ENOENT, ENOTDIR, ELOOP and the like with the path.
    /// `make`: folders that are absent are made.
    static Result<HeldFolder> open(const std::string& path, bool make = false);
};

}  // namespace tierfs::stage
