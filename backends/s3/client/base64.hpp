// Base64 of bytes (RFC 4648, section 4), as headers have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tierfs::s3 {

/// With padding, in one line.
std::string to_base64(std::string_view bytes);
/// And back. Nothing: it is no such text.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace tierfs::s3
