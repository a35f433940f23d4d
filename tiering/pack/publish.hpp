// Publishes a dataset as a pack.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/origin.hpp"
#include "tiering/pack/extent_builder.hpp"
#include "tiering/pack/manifest.hpp"

namespace tierfs::pack {

struct PublishOptions {
    std::uint64_t max_object = kMaxPackedObject;  ///< larger files are not put into extents
    unsigned workers = 4;  ///< extents under way at a time; each takes some 150 MiB of memory
    bool dry_run = false;  ///< only look
};

struct Published {
    Manifest manifest;        ///< with dry_run without what only building tells
    std::uint64_t found = 0;  ///< extents that were there already
    bool was_there = false;   ///< this very pack was complete before
    std::vector<std::string> remarks;
};

/// Packs `source` into `dest`, which is somewhere else. What an earlier run has published of the same pack is
/// not read again. The source is only read; `dest` gets extents, then the index, then, unless there is a
/// manifest, the manifest: before that nobody takes it for a pack. Extents and indexes there that are not of
/// this pack are removed.
///
/// Blocks. Errors: EEXIST: `dest` holds a pack of something else; ECANCELED once `stopped` says so, which is
/// asked on several threads; those of the origins, with the path: a file that changed since it was listed is
/// ESTALE.
Result<Published> publish(Origin& source, Origin& dest, const PublishOptions& options, Progress& progress,
                          const std::function<bool()>& stopped);

/// The manifest in `dest`; ENOENT: there is none.
Result<Manifest> read_manifest(Origin& dest);

}  // namespace tierfs::pack
