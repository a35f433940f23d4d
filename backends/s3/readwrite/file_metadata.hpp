// backends/s3/readwrite/: files of a bucket as POSIX has them, for writable mounts. PosixBucket is the whole;
// BucketCalls its requests, Draft a file that is being changed. This file: what an object's metadata says of
// the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "backends/http/request.hpp"
#include "backends/s3/client/keys.hpp"
#include "config/base/result.hpp"

namespace tierfs::s3 {

/// What is kept of a file beside its bytes, under the names and in the forms that s3fs uses, so that each
/// shows the other's files as they are: x-amz-meta-mode (decimal st_mode, with the type), -uid, -gid
/// (decimal), -mtime, -atime, -ctime (seconds since 1970, a point and nine digits of a fraction), -xattr (a
/// JSON object of names and base64 values, percent-encoded). Times are nanoseconds since 1970.
struct FileMetadata {
    std::uint32_t mode = 0;  ///< st_mode, with the type
    std::uint32_t uid = 0, gid = 0;
    std::int64_t atime_ns = 0, mtime_ns = 0, ctime_ns = 0;
    std::map<std::string, std::string> xattrs;
    /// Headers that others gave the object, which it keeps: Content-Type and its like, x-amz-meta-* of other
    /// names. In the order of their names, which are in lower case.
    std::vector<http::Header> kept = {};
    /// As the header x-amz-tagging has them. No part of what HEAD tells: two that differ in it alone are equal.
    std::string tags = {};
    friend bool operator==(const FileMetadata& one, const FileMetadata& other) {
        const auto all = [](const FileMetadata& m) {
            return std::tie(m.mode, m.uid, m.gid, m.atime_ns, m.mtime_ns, m.ctime_ns, m.xattrs, m.kept);
        };
        return all(one) == all(other);
    }
};

/// S3 keeps 2 KiB of metadata with an object, names and values together; so much of it may be extended
/// attributes, as they are written.
inline constexpr std::size_t kMostXattrBytes = 1536;

/// The value of x-amz-meta-xattr; empty for none.
std::string xattrs_text(const std::map<std::string, std::string>& xattrs);
/// And back. What is no such text counts as none: anybody may have written it. Pure.
std::map<std::string, std::string> parse_xattrs(std::string_view text);

/// The headers of a request that makes an object.
std::vector<http::Header> metadata_headers(const FileMetadata& metadata);

/// From the reply to HEAD. What is missing or makes no sense is as `ownership` and Last-Modified have it; the
/// type can only be that of a file or a symbolic link, or of a directory where `is_marker` says so.
FileMetadata metadata_of_head(const http::Response& response, const Ownership& ownership, bool is_marker);

}  // namespace tierfs::s3
