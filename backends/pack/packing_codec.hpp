// The codec of a pack: how its files are compressed, as the command line names it.
#pragma once

#include <string>
#include <string_view>

#include "config/base/codec.hpp"
#include "config/base/result.hpp"

namespace tierfs::pack {

/// One for all files of a pack, each where it saves 12 % of its place. Readers need not know it: what each
/// file was stored as stands in the index. Part of the names of extents, so that they stand for the same
/// bytes.
struct PackingCodec {
    Codec codec = Codec::none;
    int level = 0;  ///< of zstd: 1 to kMostLevel
    friend bool operator==(const PackingCodec&, const PackingCodec&) = default;

    /// A pack is written once and read often. Beyond the most, a file of 1 MiB gains nothing but time.
    static constexpr int kUsualLevel = 3, kMostLevel = 19;
};

/// none, lz4, zstd or zstd:LEVEL; EINVAL for anything else, with what is allowed.
Result<PackingCodec> parse_packing_codec(std::string_view text);

/// As it is parsed, with the level.
std::string to_string(const PackingCodec& codec);

}  // namespace tierfs::pack
