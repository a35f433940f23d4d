// The plan of a pack: the extent of each file. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "backends/pack/format.hpp"
#include "backends/pack/packing_codec.hpp"

namespace tierfs::pack {

/// The files of one extent.
struct PlannedExtent {
    ExtentUuid uuid;
    std::vector<std::size_t> files;  ///< places in the list of entries, in the order of their bytes
    std::uint64_t bytes = 0;         ///< of the files
};

/// Up to this an extent takes files; its tables and gaps come on top, some 3 %.
inline constexpr std::uint64_t kExtentTarget = 60 << 20;
/// From here on an extent ends before any file whose name happens to say so, so that a file more or less
/// moves the borders of a few extents and not of all behind it.
inline constexpr std::uint64_t kExtentLeast = 30 << 20;

/// Whether a file's bytes are put into an extent.
bool is_packed(const Entry& entry, std::uint64_t max_object);

/// Files in the order of `first` (places in the list, none twice), then the others in the order of `entries`.
/// `source`: Origin::identity. The same input gives the same plan; with another codec, extents of other
/// names.
std::vector<PlannedExtent> plan_extents(const std::vector<Entry>& entries, std::string_view source,
                                        std::uint64_t max_object, const std::vector<std::size_t>& first = {},
                                        const PackingCodec& codec = {});

}  // namespace tierfs::pack
