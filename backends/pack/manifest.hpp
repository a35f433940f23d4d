// The manifest of a pack: what it is of, and where its index is. Its last file: with it, the pack is there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/origin/object.hpp"
#include "backends/pack/packing_codec.hpp"
#include "config/base/result.hpp"

namespace tierfs::pack {

/// A manifest's length, whatever it says: one read brings it, and nobody has to ask for its length before.
inline constexpr std::size_t kManifestBytes = 4096;

/// manifest.json: a JSON object, spaces, and a newline at last.
struct Manifest {
    std::string source;  ///< identity of the origin (Origin::identity)
    ContentId index;     ///< XXH3-128 of the index, which is in its name
    std::uint64_t index_bytes = 0;
    std::uint64_t files = 0, directories = 0, symlinks = 0;  ///< names of each kind, the root among them
    std::uint64_t bytes = 0;                                 ///< of all files
    std::uint64_t packed_files = 0, packed_bytes = 0;  ///< of those in extents, as they are at the source
    std::uint64_t extents = 0, extent_bytes = 0;
    std::uint64_t max_object = 0;  ///< larger files are at the source only
    PackingCodec codec;            ///< what the packer was told; the index says it of each file
    friend bool operator==(const Manifest&, const Manifest&) = default;

    /// Relative to DEST.
    [[nodiscard]] std::string index_path() const;
};

/// Whether a name is one that index_path gives.
bool is_index_name(std::string_view name);

/// kManifestBytes; ENAMETOOLONG for a source whose identity is too long for that.
Result<std::string> encode_manifest(const Manifest& manifest);

/// EIO for what is no manifest, EPROTONOSUPPORT for one of another version. `text` may be anything.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace tierfs::pack
