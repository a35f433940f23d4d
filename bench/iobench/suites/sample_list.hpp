// The list of files that `iobench run --list` names.
#pragma once

#include <string>
#include <vector>

#include "bench/iobench/data/files.hpp"

namespace tierfs::iobench {

/// The files that `list` names, sorted by path: paths relative to `directory`, one a line, each at most once;
/// empty lines mean nothing. No directory is listed, which on some file systems asks for every file in it.
/// Behind a tab a line may give the size: that file is then not looked at either. EINVAL, with the list and
/// the path, for a path that is absolute or has "..", and for what is not a regular file.
Result<std::vector<FoundFile>> listed_files(const std::string& list, const std::string& directory);

}  // namespace tierfs::iobench
