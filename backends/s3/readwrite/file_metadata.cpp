#include "backends/s3/readwrite/file_metadata.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "backends/http/retry.hpp"
#include "backends/http/url.hpp"
#include "backends/s3/client/base64.hpp"
#include "config/base/time.hpp"

namespace tierfs::s3 {
namespace {

constexpr int kDigitsOfFraction = 9;
constexpr std::size_t kLongestText = 8192;

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string time_text(std::int64_t ns) {
    std::int64_t seconds = ns / kNsPerSecond, rest = ns % kNsPerSecond;
    if (rest < 0) {
        --seconds;
        rest += kNsPerSecond;
    }
    std::array<char, 16> fraction{};
    std::snprintf(fraction.data(), fraction.size(), ".%09lld", static_cast<long long>(rest));
    return std::to_string(seconds) + fraction.data();
}

/// "SECONDS" or "SECONDS.FRACTION".
std::optional<std::int64_t> parse_time(std::string_view text) {
    const auto point = std::min(text.find('.'), text.size());
    const auto whole = text.substr(0, point);
    std::int64_t seconds = 0;
    const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), seconds);
    if (whole.empty() || error != std::errc{} || end != whole.data() + whole.size()) return std::nullopt;
    if (seconds > INT64_MAX / kNsPerSecond - 1 || seconds < INT64_MIN / kNsPerSecond + 1) return std::nullopt;
    std::int64_t fraction = 0;
    for (int i = 0; i < kDigitsOfFraction; ++i) {
        const auto at = point + 1 + static_cast<std::size_t>(i);
        const char digit = at < text.size() ? text[at] : '0';
        if (digit < '0' || digit > '9') return std::nullopt;
        fraction = fraction * 10 + (digit - '0');
    }
    return seconds * kNsPerSecond + fraction;
}

std::uint32_t mode_of_head(const http::Response& response, const Ownership& ownership, bool is_marker) {
    const auto said = number(response.header("x-amz-meta-mode"));
    const std::uint32_t bits = said ? static_cast<std::uint32_t>(*said & 07777U)
                                    : (is_marker ? ownership.directory_mode : ownership.file_mode);
    if (is_marker) return S_IFDIR | bits;
    return (said && S_ISLNK(*said & S_IFMT) ? S_IFLNK : S_IFREG) | bits;
}

constexpr const char* type_of(std::uint32_t mode) {
    return S_ISDIR(mode) ? "application/x-directory" : "application/octet-stream";
}

/// Of a reply to HEAD. What we give each object ourselves need not be kept, nor what servers say of one that
/// was given no type.
bool is_kept(const http::Header& header, std::uint32_t mode) {
    constexpr std::string_view kMeta = "x-amz-meta-";
    constexpr std::array<std::string_view, 7> kOwn{"mode", "uid", "gid", "mtime", "atime", "ctime", "xattr"};
    constexpr std::array<std::string_view, 5> kOthers{"content-encoding", "cache-control",
                                                      "content-disposition", "content-language", "expires"};
    const auto& [name, value] = header;
    if (name.starts_with(kMeta))
        return std::find(kOwn.begin(), kOwn.end(), std::string_view(name).substr(kMeta.size())) == kOwn.end();
    if (name == "content-type")
        return !value.empty() && value != type_of(mode) && value != "binary/octet-stream";
    return !value.empty() && std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end();
}

}  // namespace

std::string xattrs_text(const std::map<std::string, std::string>& xattrs) {
    if (xattrs.empty()) return {};
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [name, value] : xattrs) object[name] = to_base64(value);
    // Names are bytes, which need not be UTF-8.
    return http::percent_encode(object.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

std::map<std::string, std::string> parse_xattrs(std::string_view text) {
    if (text.empty() || text.size() > kLongestText) return {};
    const auto object = nlohmann::json::parse(http::percent_decode(text), nullptr, false);
    if (!object.is_object()) return {};
    std::map<std::string, std::string> xattrs;
    for (const auto& [name, value] : object.items()) {
        if (!value.is_string() || name.find('\0') != std::string::npos) continue;
        auto bytes = from_base64(value.get_ref<const std::string&>());
        if (!name.empty() && bytes) xattrs.emplace(name, std::move(*bytes));
    }
    return xattrs;
}

std::vector<http::Header> metadata_headers(const FileMetadata& metadata) {
    std::vector<http::Header> headers{{"x-amz-meta-mode", std::to_string(metadata.mode)},
                                      {"x-amz-meta-uid", std::to_string(metadata.uid)},
                                      {"x-amz-meta-gid", std::to_string(metadata.gid)},
                                      {"x-amz-meta-mtime", time_text(metadata.mtime_ns)},
                                      {"x-amz-meta-atime", time_text(metadata.atime_ns)},
                                      {"x-amz-meta-ctime", time_text(metadata.ctime_ns)}};
    bool has_type = false;
    for (const auto& header : metadata.kept) {
        has_type = has_type || header.first == "content-type";
        headers.push_back(header);
    }
    if (!has_type) headers.emplace_back("Content-Type", type_of(metadata.mode));
    auto xattrs = xattrs_text(metadata.xattrs);
    if (!xattrs.empty()) headers.emplace_back("x-amz-meta-xattr", std::move(xattrs));
    return headers;
}

FileMetadata metadata_of_head(const http::Response& response, const Ownership& ownership, bool is_marker) {
    FileMetadata metadata;
    metadata.mode = mode_of_head(response, ownership, is_marker);
    const auto id = [&](const char* name, std::uint32_t otherwise) {
        const auto said = number(response.header(name));
        return said && *said < UINT32_MAX ? static_cast<std::uint32_t>(*said) : otherwise;
    };
    metadata.uid = id("x-amz-meta-uid", ownership.uid);
    metadata.gid = id("x-amz-meta-gid", ownership.gid);
    constexpr std::int64_t kLatest = INT64_MAX / kNsPerSecond;
    const std::int64_t modified = http::parse_http_date(response.header("last-modified")).value_or(0);
    const std::int64_t stored = std::clamp(modified, -kLatest, kLatest) * kNsPerSecond;
    metadata.mtime_ns = parse_time(response.header("x-amz-meta-mtime")).value_or(stored);
    metadata.ctime_ns = parse_time(response.header("x-amz-meta-ctime")).value_or(stored);
    metadata.atime_ns = parse_time(response.header("x-amz-meta-atime")).value_or(metadata.mtime_ns);
    metadata.xattrs = parse_xattrs(response.header("x-amz-meta-xattr"));
    for (const auto& header : response.headers) {
        if (is_kept(header, metadata.mode)) metadata.kept.push_back(header);
    }
    std::sort(metadata.kept.begin(), metadata.kept.end());
    return metadata;
}

}  // namespace tierfs::s3
