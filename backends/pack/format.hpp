// backends/pack/: a dataset published for many nodes: its small files in extents, its names in one file. Made
// by `tierfs pack`, read by mounts with `pack`. tierfs-pack(5) describes the files for other readers; this
// header is the same for programmers. fs/ may include it; it stands on backends/extent and backends/.
//
//   DEST/extents/<0, 16 hex>-<uuid, 32 hex>.extent    backends/extent/format.hpp; uuid: see extent_uuid
//   DEST/index-<XXH3-128 of the file, 32 hex>         below
//   DEST/manifest.json                                manifest.hpp; written last
//
// All numbers are little endian. A "varint" has seven bits a byte, the lowest first, and the top bit where
// more follow; at most ten bytes. "signed" is a varint of 2n, or of -2n-1 for negative n, in 64 bits that
// wrap around.
//
// INDEX        header, blocks, tail, footer, each directly after the one before
//
//   HEADER     "TFSPINDX", u32 version (1), u32 zero
//   BLOCK      up to kBlockEntries entries in the order of their keys, column by column
//   TAIL       varint number of extents, for each: uuid (u64 high, u64 low), varint bytes of the file;
//              varint number of blocks, for each: varint bytes, varint entries, u64 XXH3-64 of the block, its
//              first key (as in column 1, the first one shares nothing)
//   FOOTER     u64 offset of the tail, u64 bytes of the tail, u64 XXH3-64 of the tail, u64 number of entries,
//              u64 zero, u64 XXH3-64 of the 40 bytes before it, u32 version, u32 zero, "TFSPIEND"
//
// KEY          of the root: empty. Of what is NAME in DIRECTORY: DIRECTORY, a zero byte, NAME. Keys are
// compared
//              as bytes, so that the entries of a directory follow each other. No key comes twice.
//
// BLOCK        varint number of entries, then ten columns, each with its varint length before it:
//
//    1 keys      of each entry: varint bytes shared with the key before it in the block, varint bytes of the
//    rest,
//                the rest
//    2 kinds     a byte each: bits 0-1: 1 file, 2 directory, 3 symbolic link; bit 2: archived; bit 3: packed
//                (files only); bits 4-7: codec (config/base/codec.hpp; packed ones only)
//    3 sizes     varint each
//    4 mtimes    varint unit: 1 or 1000000000 ns; then for each the signed difference to the one before (0 at
//                first), in units
//    5 ctimes    varint unit: 1 or 1000000000 ns; then for each the signed difference to its mtime (rounded
//    to
//                zero), in units
//    6 owners    varint number of rows, for each varint mode, uid, gid, nlink; then varint row of each entry
//    7 versions  of each a varint form, and by it: 0: none. 1: varint length, text. 2: 16 bytes, the text is
//    '"',
//                their 32 lower-case hexadecimal digits, '"'. 3: 16 bytes, varint n, the text is '"', digits,
//                '-', n, '"'. 4: signed difference i to the i before in the block (0 at first), the text is
//                "i:size:mtime:ctime" in decimal (i unsigned)
//    8 places    of each packed one: signed difference of the extent's number in the tail to the one before
//    (0 at
//                first), signed difference of the offset in the file to place_after() the one before (0 in
//                another extent), signed difference of the stored length to the size
//    9 sums      u32 for each 32 KiB of the stored bytes of each packed one: CHECKSUM of
//    backends/extent/format.hpp
//   10 links     of each symbolic link: varint length, target
//
// Whoever reads an index takes nothing of it for granted: it may come from anywhere.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/extent/codec.hpp"
#include "backends/extent/format.hpp"
#include "backends/origin/origin.hpp"
#include "config/base/codec.hpp"

namespace tierfs::pack {

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::string_view kIndexMagic = "TFSPINDX", kIndexEnd = "TFSPIEND";
inline constexpr std::size_t kHeaderBytes = 16, kFooterBytes = 64;
inline constexpr std::size_t kBlockEntries = 256;        ///< at most
inline constexpr std::size_t kBlockTarget = 32 * 1024;   ///< a block ends when its keys and sums reach this
inline constexpr std::size_t kMostBlockBytes = 8 << 20;  ///< what a reader takes
inline constexpr std::size_t kMostTailBytes = 1 << 30;
inline constexpr std::size_t kLongestName = 255, kLongestDirectory = 16 * 1024;

inline constexpr const char* kExtents = "extents";
inline constexpr const char* kManifest = "manifest.json";

/// Where a file's bytes are.
struct Place {
    std::uint32_t extent = 0;  ///< number in the index
    std::uint64_t offset = 0;  ///< in the extent's file
    std::uint32_t stored = 0;  ///< bytes there
    Codec codec = Codec::none;
    std::vector<std::uint32_t> sums;  ///< of each kExtentUnit
    friend bool operator==(const Place&, const Place&) = default;
};

/// One name of the dataset. The root has neither directory nor name.
struct Entry {
    std::string directory, name;
    Attributes attributes;
    std::optional<Place> place;  ///< none: the bytes are at the source only
    std::string link;            ///< target of a symbolic link

    [[nodiscard]] bool is_root() const { return name.empty(); }
    [[nodiscard]] std::string path() const { return directory.empty() ? name : directory + "/" + name; }
};

/// See KEY.
std::string key_of(std::string_view directory, std::string_view name);
inline std::string key_of(const Entry& entry) {
    return entry.is_root() ? std::string() : key_of(entry.directory, entry.name);
}
/// The key of a path ("" is the root).
std::string key_of_path(std::string_view path);

/// Whether a path is relative and clean: components joined by one '/', none ".", "..", too long, or with a
/// zero.
bool is_clean_directory(std::string_view path);
bool is_clean_name(std::string_view name);

/// Where an entry of `stored` bytes begins, at the earliest, when the one before it ends at `end`.
constexpr std::uint64_t place_after(std::uint64_t end, std::uint64_t stored) {
    const bool alone = stored >= kDiskAlignment || end % kDiskAlignment + stored > kDiskAlignment;
    return alone ? align_up(end) : end;
}

struct Extent {
    ExtentUuid uuid;
    std::uint64_t bytes = 0;
    /// Relative to DEST.
    [[nodiscard]] std::string path() const { return std::string(kExtents) + "/" + extent_file_name(0, uuid); }
    friend bool operator==(const Extent&, const Extent&) = default;
};

/// XXH3-64 and XXH3-128 of bytes, as they stand in packs.
std::uint64_t hash64(std::string_view bytes);
ContentId hash128(std::string_view bytes);

}  // namespace tierfs::pack
