// Percent-encoding and the few parts of a URL that are needed here (RFC 3986).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/base/result.hpp"

namespace tierfs::http {

/// Everything but A-Z a-z 0-9 - . _ ~ becomes %XX with upper-case digits, as SigV4 wants it. `keep_slash`:
/// '/' stays.
std::string percent_encode(std::string_view text, bool keep_slash = false);

/// %XX becomes the byte; a '%' without two hexadecimal digits stays. `plus_is_space`: '+' becomes ' '.
std::string percent_decode(std::string_view text, bool plus_is_space = false);

struct Url {
    bool tls = false;
    std::string host;        ///< lower case; IPv6 in brackets
    std::uint16_t port = 0;  ///< always set
    std::string path;        ///< "/..." or empty
    std::string query;       ///< without '?'

    [[nodiscard]] bool default_port() const { return port == (tls ? 443 : 80); }
    /// host, or host:port when the port is not the scheme's own; what the Host header says.
    [[nodiscard]] std::string authority() const {
        return default_port() ? host : host + ":" + std::to_string(port);
    }
    /// http://host[:port]
    [[nodiscard]] std::string base() const { return (tls ? "https://" : "http://") + authority(); }
    /// An IPv4 or IPv6 address rather than a name.
    [[nodiscard]] bool is_address() const;
};

/// EINVAL for what is not http[s]://HOST[:PORT][/PATH][?QUERY]; user names and passwords in URLs are refused.
Result<Url> parse_url(std::string_view text);

}  // namespace tierfs::http
