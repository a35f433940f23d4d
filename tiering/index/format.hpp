// The index's records as bytes. Pure functions, no RocksDB: what is written here is all there is to know
// about the contents of an index. Internal to tiering/index and fs/daemon.
//
// One key space; the first byte of a key is its kind. Numbers in keys are big-endian, so that keys sort as
// numbers do.
//
//   'N' be64(parent) name       -> 01 u64 node, u8 kind
//   'D' be64(directory)         -> 01 i64 listed_ns, u64 entries, u32 n, n x (u16 length, reason, u64 count)
//   'I' be64(node)              -> 01 u64 parent, u64 inode, u8 kind, u64 size, i64 mtime_ns, i64 ctime_ns,
//                                  u32 mode | acl << 16, u32 uid, u32 gid, u32 nlink, u8 archived, u64 content high,
//                                  u64 content low, i64 checked_ns, u16 length, name, u32 length, version
//   'L' be64(high) be64(low)    -> what the tiers wrote, as it is
//   'M' "layout"                -> u32 layout version (this one is not allowed to change its form)
//   'M' "identity"              -> the identity of the source and the settings that names hold of, as they are
//   'M' "source"                -> the identity of the source alone; absent in an index of before it was written
//   'M' "next"                  -> 01 u64 next node id that nobody reserved, u64 its complement
//
// Numbers in values are little-endian. The first byte of a value is the version of its form, 01. A value that
// is too short, too long, or holds an impossible kind is no record: decode answers nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tiering/index/index.hpp"

namespace tierfs::index_format {

inline constexpr std::uint32_t kLayout = 1;
inline constexpr char kFormat = 1;

inline constexpr char kNames = 'N';
inline constexpr char kListings = 'D';
inline constexpr char kNodes = 'I';
inline constexpr char kLocations = 'L';

inline constexpr std::string_view kLayoutKey = "Mlayout";
inline constexpr std::string_view kIdentityKey = "Midentity";
inline constexpr std::string_view kSourceKey = "Msource";
inline constexpr std::string_view kNextNodeKey = "Mnext";

/// Bytes of a key that come before a name: kind and one number. RocksDB's prefix.
inline constexpr std::size_t kPrefixBytes = 9;

std::string number_key(char kind, std::uint64_t number);
std::string name_key(NodeId parent, std::string_view name);
std::string location_key(const ContentId& id);

/// The number after the kind; nothing when the key is too short or of another kind.
std::optional<std::uint64_t> parse_number_key(char kind, std::string_view key);
std::optional<ContentId> parse_location_key(std::string_view key);

std::string encode(const NameRecord& record);
std::string encode(const NodeRecord& record);
std::string encode(const ListingRecord& record);
std::string encode_layout(std::uint32_t layout);
std::string encode_next_node(NodeId next);

std::optional<NameRecord> decode_name(std::string_view value);
std::optional<NodeRecord> decode_node(std::string_view value);
std::optional<ListingRecord> decode_listing(std::string_view value);
std::optional<std::uint32_t> decode_layout(std::string_view value);
std::optional<NodeId> decode_next_node(std::string_view value);

}  // namespace tierfs::index_format
