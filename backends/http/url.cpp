#include "backends/http/url.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "config/base/hex.hpp"

namespace tierfs::http {
namespace {

bool is_unreserved(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/// A name, an IPv4 address, or an IPv6 address in brackets: without them its last part would pass for a port.
bool is_host(std::string_view text) {
    if (!text.starts_with('[')) return !text.empty() && std::all_of(text.begin(), text.end(), is_unreserved);
    if (!text.ends_with(']')) return false;
    in6_addr address{};
    return ::inet_pton(AF_INET6, std::string(text.substr(1, text.size() - 2)).c_str(), &address) == 1;
}

}  // namespace

std::string percent_encode(std::string_view text, bool keep_slash) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    std::string encoded;
    encoded.reserve(text.size() + text.size() / 4);
    for (const char c : text) {
        if (is_unreserved(c) || (keep_slash && c == '/')) {
            encoded += c;
            continue;
        }
        const auto byte = static_cast<unsigned char>(c);
        encoded += '%';
        encoded += kDigits[byte >> 4U];
        encoded += kDigits[byte & 15U];
    }
    return encoded;
}

std::string percent_decode(std::string_view text, bool plus_is_space) {
    std::string decoded;
    decoded.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size()) {
            const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
            if (high >= 0 && low >= 0) {
                decoded += static_cast<char>(high * 16 + low);
                i += 2;
                continue;
            }
        }
        decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
    return decoded;
}

bool Url::is_address() const {
    if (host.starts_with('[')) return true;
    in_addr address{};
    return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

Result<Url> parse_url(std::string_view text) {
    const auto refuse = [&](std::string_view why) {
        return fail(EINVAL, std::string(why) + "; allowed is http[s]://HOST[:PORT]");
    };
    Url url;
    if (text.starts_with("https://")) {
        url.tls = true;
        text.remove_prefix(8);
    } else if (text.starts_with("http://")) {
        text.remove_prefix(7);
    } else {
        return refuse("the URL does not start with http:// or https://");
    }
    const auto authority_end = std::min(text.find_first_of("/?#"), text.size());
    std::string_view authority = text.substr(0, authority_end);
    std::string_view rest = text.substr(authority_end);
    if (authority.find('@') != std::string_view::npos) return refuse("the URL holds a user name");
    url.port = url.tls ? 443 : 80;
    const auto bracket = authority.rfind(']');
    const auto colon = authority.rfind(':');
    if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
        const auto digits = authority.substr(colon + 1);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
        if (error != std::errc{} || end != digits.data() + digits.size() || url.port == 0)
            return refuse("the URL's port is no number from 1 to 65535");
        authority = authority.substr(0, colon);
    }
    if (!is_host(authority))
        return refuse("the URL's host is empty, holds characters that no host has, or is no [IPv6 address]");
    url.host = authority;
    std::transform(url.host.begin(), url.host.end(), url.host.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    rest = rest.substr(0, rest.find('#'));
    const auto question = rest.find('?');
    url.path = rest.substr(0, question);
    if (question != std::string_view::npos) url.query = rest.substr(question + 1);
    return url;
}

}  // namespace tierfs::http
