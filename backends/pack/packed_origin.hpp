// A source seen through its pack: names from the pack's index, small files' bytes from its extents.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/origin/origin.hpp"
#include "backends/pack/manifest.hpp"
#include "backends/pack/packed_source.hpp"
#include "backends/pack/staleness.hpp"
#include "config/settings.hpp"

namespace tierfs {

/// Counts since the mount; bytes are those of files.
struct PackStats {
    std::string location;                ///< settings.pack; empty: there is no pack
    std::string index;                   ///< digest of its index
    std::uint64_t files = 0;             ///< in the pack, those at the source alone too
    std::uint64_t reads = 0, bytes = 0;  ///< answered from extents
    std::uint64_t requests =
        0;  ///< sent to DEST for them: fewer than reads where neighbours are read together
    std::uint64_t damaged = 0;   ///< reads whose bytes had another checksum
    std::uint64_t failed = 0;    ///< reads that DEST did not answer otherwise
    std::string last_error;      ///< of these two kinds; the bytes came from the source
    std::string staleness;       ///< settings.pack_staleness
    ComparisonStats comparison;  ///< with `list`
};

/// What a mount with `pack` reads from. What names there are, and of which versions, is by `pack.staleness`:
/// `trust`: as the pack says; nothing is listed or looked up at the source. `list`: as the pack says but for
/// what a comparison with the source has found, see watch_source(). `check`: as the source says.
///
/// Bytes of a version that the pack has come from its extents, all others from the source, and so do those of
/// an extent that is missing, damaged or out of reach. All that comes from an extent is verified. Versions
/// and identity are the source's, so that tiers know files alike with a pack and without. Each of the two
/// places gets half of origin.deadline.
///
/// See Origin. Cannot be written to. stat(), list() and read_link() read local files only, but with `check`,
/// and for the targets of symbolic links that are not the pack's.
class PackedOrigin : public Origin, public PackedSource {
  public:
    /// Reads the manifest: from one of the folders `kept`, if one of them was given to open_index() or has
    /// such a folder, named by the source, in it; a daemon that takes a mount over goes on with the same pack
    /// so. Else from DEST. Errors: of opening, of the manifest (with DEST in the text), EINVAL for the pack
    /// of another source.
    static Result<std::unique_ptr<PackedOrigin>> open(const Settings& settings,
                                                      const std::vector<std::filesystem::path>& kept);

    /// Before anything else but check(), identity() and kind(): the index in this folder, which nobody else
    /// writes to; brought from DEST unless it is there. Keeps the manifest there, too. What is there of other
    /// packs is removed.
    virtual Result<void> open_index(const std::filesystem::path& folder) = 0;

    /// With `list`: begins to compare the source with the pack, in the background, every metadata.ttl. `told`
    /// hears what has become different, on any thread, until stop() returns. After open_index(), once.
    virtual void watch_source(std::function<void(const Renewed&)> told) = 0;

    [[nodiscard]] virtual const pack::Manifest& manifest() const = 0;
    [[nodiscard]] virtual PackStats pack_stats() const = 0;
};

}  // namespace tierfs
