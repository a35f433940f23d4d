// Files of an upload that has not been completed, where they lie beside what they become (dir/, nfs/).
#pragma once

#include <string>
#include <string_view>

#include "config/base/result.hpp"

namespace tierfs {

/// A path's folder, empty for the root, and its last component.
struct SplitPath {
    std::string directory, name;
};
SplitPath split_path(const std::string& path);

/// What the names of all uploads of a path begin with. EIO: see md5_hex.
Result<std::string> upload_prefix(const std::string& path);

/// A name that was never given out before, as far as chance goes.
std::string new_upload_name(const std::string& prefix);

/// An upload's id comes from a journal, which anybody may have written to: it must not lead elsewhere.
bool is_upload_name(std::string_view name, std::string_view prefix);

}  // namespace tierfs
