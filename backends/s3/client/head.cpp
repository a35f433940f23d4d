#include "backends/s3/client/head.hpp"

#include <charconv>

#include "backends/http/retry.hpp"

namespace tierfs::s3 {

Result<Attributes> attributes_of_head(const http::Response& response, const Ownership& ownership) {
    ListedObject object;
    const auto length = response.header("content-length");
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), object.size);
    if (length.empty() || error != std::errc{} || end != length.data() + length.size() ||
        object.size > static_cast<std::uint64_t>(INT64_MAX))
        return fail(EIO, "the reply to HEAD tells no Content-Length");
    object.mtime_s = http::parse_http_date(response.header("last-modified")).value_or(0);
    object.etag = response.header("etag");
    object.storage_class = response.header("x-amz-storage-class");
    object.restored =
        response.header("x-amz-restore").find("ongoing-request=\"false\"") != std::string_view::npos;
    auto attributes = file_attributes(object, ownership);
    // Intelligent-Tiering tells by a header of its own that the object has moved to an archive.
    if (!response.header("x-amz-archive-status").empty() && !object.restored) attributes.archived = true;
    return attributes;
}

}  // namespace tierfs::s3
