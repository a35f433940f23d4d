// The directory of an index: making it, and putting a damaged one aside. Internal to tiering/index.
#pragma once

#include <filesystem>

#include "config/base/result.hpp"

namespace tierfs {

/// A file of this name in an index's directory says that its blocks did not verify: the next open rebuilds.
inline constexpr const char* kDamagedMark = "TIERFS-DAMAGED";

/// Makes a directory with its parents; it alone gets mode 0700. Errors: of the file system, with the path.
Result<void> make_private_directory(const std::filesystem::path& directory);

/// Renames NAME to NAME.damaged-<n>, n one more than any before, and removes those before. Returns the new
/// path.
Result<std::filesystem::path> put_aside(const std::filesystem::path& directory);

/// Leaves the mark; best effort, errors are ignored (the database's own checks will find the damage again).
void mark_damaged(const std::filesystem::path& directory) noexcept;

}  // namespace tierfs
