// From keys to names: which keys of a bucket are paths.
#pragma once

#include "backends/origin/origin.hpp"
#include "backends/s3/client/xml.hpp"

namespace tierfs::s3 {

/// What S3 does not tell about a file or directory.
struct Ownership {
    std::uint32_t uid = 0, gid = 0, file_mode = 0444, directory_mode = 0555;
};

/// Reasons of ListPage::hidden.
namespace hidden {
inline constexpr const char* kEmptyComponent = "empty path component";
inline constexpr const char* kDots = "component . or ..";
inline constexpr const char* kLeadingSlash = "leading /";
inline constexpr const char* kTooLong = "name longer than 255 bytes";
inline constexpr const char* kNul = "NUL in the name";
inline constexpr const char* kBesideDirectory = "file beside a directory of the same name";
inline constexpr const char* kMarkerWithContent = "directory marker with content";
inline constexpr const char* kOutside = "key outside the listed prefix";
}  // namespace hidden

/// The version of an object: its ETag in quotes; without one that is usable, a text of time and size that is_etag() tells
/// apart.
std::string make_version(std::string_view etag, std::int64_t mtime_s, std::uint64_t size);

/// Whether it can be a component of a path.
bool is_component(std::string_view name);

/// Whether If-Match can pin the version: a strong ETag.
bool is_strong_etag(std::string_view version);
/// False: a size alone, since the server gave whoever wrote no ETag: nothing can be told from it.
bool tells_version(std::string_view version);

/// GLACIER and DEEP_ARCHIVE must be restored before they can be read.
bool is_archive_class(std::string_view storage_class);

Attributes file_attributes(const ListedObject& object, const Ownership& ownership);
Attributes directory_attributes(const Ownership& ownership);

/// The entries of the directory `prefix` ("" or ending in '/'), sorted by name, each name once; a directory
/// wins over a file. A key that is no path is counted, and never hides its neighbours.
ListPage map_listing(const Listing& listing, std::string_view prefix, const Ownership& ownership);

}  // namespace tierfs::s3
