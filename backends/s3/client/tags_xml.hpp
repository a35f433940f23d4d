// Tags of an object, as a header and as XML have them.
#pragma once

#include <string>
#include <string_view>

#include "config/base/result.hpp"

namespace tierfs::s3 {

/// From the reply to GET ?tagging to the value of the header x-amz-tagging ("name=value&name=value",
/// percent-encoded); empty: no tags. EIO for what is no such reply.
Result<std::string> parse_tags(std::string_view body);
/// And from there to the body of PUT ?tagging.
std::string tags_document(std::string_view tags);

}  // namespace tierfs::s3
