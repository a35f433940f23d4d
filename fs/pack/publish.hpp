// Publishes a dataset as a pack.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/origin/origin.hpp"
#include "backends/pack/manifest.hpp"
#include "config/base/units.hpp"
#include "fs/pack/extent_builder.hpp"

namespace tierfs::pack {

struct PublishOptions {
    std::uint64_t max_object = kMaxPackedObject;  ///< larger files are not put into extents
    unsigned workers = 4;  ///< extents under way at a time; each takes some 150 MiB of memory
    bool dry_run = false;  ///< only look
    std::string order;     ///< a list for parse_order: these files come first
    bool update = false;   ///< another state of the same source may be there: it is replaced
    bool prune = false;    ///< at last, what this pack does not name is removed
    Share shard;           ///< of the extents
    /// Nothing: that of the pack that is there already; where there is none, it is not compressed.
    std::optional<PackingCodec> codec;
};

struct Published {
    Manifest manifest;          ///< with dry_run without what only building tells
    std::uint64_t found = 0;    ///< extents that were there already
    std::uint64_t removed = 0;  ///< files of other generations
    bool was_there = false;     ///< this very pack was complete before
    bool is_complete = true;    ///< false after a shard that was not the last
    std::uint64_t parts = 0;    ///< shards that have ended, where it was one that was not the last
    std::vector<std::string> remarks;
};

/// Packs `source` into `dest`, which is somewhere else. What an earlier run has published of the same pack is
/// not read again. The source is only read; `dest` gets extents, then the index, then, unless there is a
/// manifest, the manifest: before that nobody takes it for a pack. Extents and indexes there that are not of
/// this pack are removed before, where there was no manifest.
///
/// With `update` a manifest of another state of the source is replaced at the end, if it still is the one
/// that was there at first. Extents that both states have are neither read nor written. Extents and index of
/// the earlier generation stay for its readers, until a run with `prune`.
///
/// With a `shard` it makes that share of the extents, then publishes a part of the index; if all parts are
/// there it goes on and publishes the pack, the same as a run without shards. Shards may run at the same
/// time, on many machines, one after the other, and again.
///
/// Blocks. Errors: EEXIST: `dest` holds a pack of something else; ECANCELED once `stopped` says so, which is
/// asked on several threads; those of the origins, with the path: a file that changed since it was listed is
/// ESTALE.
Result<Published> publish(Origin& source, Origin& dest, const PublishOptions& options, Progress& progress,
                          const std::function<bool()>& stopped);

}  // namespace tierfs::pack
