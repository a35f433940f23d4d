// Brings the index of a pack onto this machine.
#pragma once

#include <string>

#include "backends/origin.hpp"
#include "tiering/pack/manifest.hpp"

namespace tierfs::pack {

/// Writes the index into the file `fd`, from its start, in large ranges side by side, and compares it with
/// its digest. Errors: the origin's; EIO for another digest; those of write(2), with `shown`.
Result<void> fetch_index(Origin& dest, const Manifest& manifest, int fd, const std::string& shown);

}  // namespace tierfs::pack
