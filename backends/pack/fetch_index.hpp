// Brings the index of a pack onto this machine.
#pragma once

#include <memory>
#include <string>

#include "backends/origin/origin.hpp"
#include "backends/pack/index.hpp"
#include "backends/pack/manifest.hpp"

namespace tierfs::pack {

/// Writes the index into the file `fd`, from its start, in large ranges side by side, and compares it with
/// its digest. Errors: the origin's; EIO for another digest; those of write(2), with `shown`.
Result<void> fetch_index(Origin& dest, const Manifest& manifest, int fd, const std::string& shown);

/// The index, of which a copy without a name is kept in the folder for temporary files. Errors as above.
Result<std::unique_ptr<PackIndex>> read_index(Origin& dest, const Manifest& manifest);
/// The same of a file of `bytes` bytes that no digest is known of.
Result<std::unique_ptr<PackIndex>> read_index(Origin& dest, const std::string& path, std::uint64_t bytes);

/// The manifest in `dest`; ENOENT: there is none.
Result<Manifest> read_manifest(Origin& dest);

}  // namespace tierfs::pack
