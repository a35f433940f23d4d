// The XML of multipart uploads.
#pragma once

#include "backends/origin/writable_origin.hpp"

namespace tierfs::s3 {

/// ListParts: a page, and where the next begins (0: that was the last).
struct PartsPage {
    std::vector<UploadPart> parts;
    unsigned next_marker = 0;
};
/// EIO for what is no such reply, for numbers that are none, and for a page that leads nowhere.
Result<PartsPage> parse_parts(std::string_view body);

/// ListMultipartUploads: those of one page, keys decoded into PendingUpload::upload.path, and the markers of
/// the next page (both empty: that was the last).
struct UploadsPage {
    std::vector<PendingUpload> uploads;
    std::string next_key, next_id;
};
Result<UploadsPage> parse_uploads(std::string_view body);

/// The document of CompleteMultipartUpload.
std::string complete_document(std::span<const UploadPart> parts);

/// An ETag as it comes, without its quotes.
std::string unquoted(std::string_view etag);

}  // namespace tierfs::s3
