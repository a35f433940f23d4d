// The manifest at a destination of `tierfs-stage out`. Internal to fs/stage/copy.
#pragma once

#include "backends/origin/writable_origin.hpp"
#include "fs/stage/copy/manifest.hpp"

namespace tierfs::stage {

/// What an earlier run wrote; an empty one when there is none. EINVAL "...: LINE: ..." for what is no
/// manifest.
Result<Manifest> read_out_manifest(Origin& destination, WritableOrigin& writer);

/// Writes it whole, unless the very same is there. Blocks.
Result<void> write_out_manifest(WritableOrigin& writer, const std::string& destination,
                                const std::map<std::string, ManifestRecord, std::less<>>& records,
                                bool fresh);

/// Reads a whole object of this version and size. Blocks.
Result<std::string> read_whole(Origin& origin, const std::string& path, const Attributes& attributes);

}  // namespace tierfs::stage
