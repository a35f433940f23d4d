// An object as a reply to HEAD tells it.
#pragma once

#include "backends/http/request.hpp"
#include "backends/s3/client/keys.hpp"

namespace tierfs::s3 {

/// From Content-Length, Last-Modified, ETag and the headers of archived objects. EIO without a Content-Length
/// that is a number below 2^63; a date that is none counts as 1970. Pure.
Result<Attributes> attributes_of_head(const http::Response& response, const Ownership& ownership);

}  // namespace tierfs::s3
