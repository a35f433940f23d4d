// The directory that a SOURCE names. For open_origin and for the checks before a mount, which must
// mean the same directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backends/http/url.hpp"

namespace tierfs {

/// The path of "/dir" (as it is) and of "file:///dir%20name" (percent-decoded, RFC 8089); empty optional for
/// every other kind of SOURCE. What a file:// URL names may be no absolute path, or hold a NUL: the caller
/// checks. Pure.
inline std::optional<std::string> directory_of_source(std::string_view source) {
    constexpr std::string_view kFile = "file://";
    if (source.starts_with(kFile)) return http::percent_decode(source.substr(kFile.size()));
    if (source.starts_with('/')) return std::string(source);
    return std::nullopt;
}

}  // namespace tierfs
