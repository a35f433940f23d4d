// The XML that S3 answers with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs::s3 {

/// The longest reply but for bodies of objects: a page of 1,000 keys of 1,024 bytes, each byte of which is written as three.
inline constexpr std::size_t kLongestReply = 4U << 20U;

/// Bytes of an ETag that is kept: they stay in memory for each name that is known. S3's have 34 to 40.
inline constexpr std::size_t kLongestEtag = 256;

/// One <Contents> of a listing, keys decoded.
struct ListedObject {
    std::string key;
    std::string etag;           ///< as sent, empty when there is none or it is longer than kLongestEtag
    std::string storage_class;  ///< empty: standard
    std::uint64_t size = 0;
    std::int64_t mtime_s = 0;  ///< whole seconds, as HEAD tells it
    bool restored = false;     ///< an archived object of which a readable copy exists
};

struct Listing {
    std::vector<ListedObject> objects;
    std::vector<std::string> prefixes;  ///< decoded, with the delimiter at the end
    std::string next_token;             ///< empty: that was the last page
    std::uint64_t text_bytes = 0;       ///< of the reply that it was made of
};

/// ListObjectsV2's reply. Keys are percent-decoded only if the reply says EncodingType url. EIO with the
/// place for what is no such reply; objects without a key, or with a size that is no number, make it fail as
/// well: a listing is served whole or not at all.
Result<Listing> parse_listing(std::string_view body);

/// <Error>'s parts; all empty when the body is none.
struct ErrorBody {
    std::string code, message, region, endpoint;
};
ErrorBody parse_error(std::string_view body);

/// Text of the first element of that name, at any depth; empty when there is none. For STS.
std::string find_text(std::string_view body, const char* element);

/// "2024-01-31T23:59:59.000Z" in seconds since 1970; empty when it is none.
std::optional<std::int64_t> parse_iso_time(std::string_view text);

}  // namespace tierfs::s3
