// floor: backends
// URLs, sources and endpoints. Input: lines with a URL, a SOURCE, a region and an addressing style.
#include <algorithm>
#include <cctype>

#include "backends/s3/client/endpoint.hpp"
#include "backends/source_url.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace tierfs;

void check_encoding(std::string_view text) {
    const auto encoded = http::percent_encode(text);
    for (const char c : encoded) {
        fuzz::require(c > ' ' && c < 0x7f && c != '/' && c != '?' && c != '#' && c != '+',
                      "encoded text is safe in a URL");
    }
    fuzz::require(http::percent_decode(encoded) == text, "encoding can be undone");
    fuzz::require(http::percent_decode(http::percent_encode(text, true), true) == text,
                  "also where + is a blank");
    fuzz::require(http::percent_decode(text).size() <= text.size(), "decoding never grows");
}

void check_url(std::string_view text) {
    const auto url = http::parse_url(text);
    if (!url) return;
    fuzz::require(!url->host.empty() && url->port != 0, "a URL has a host and a port");
    const auto again =
        http::parse_url(url->base() + url->path + (url->query.empty() ? "" : "?" + url->query));
    fuzz::require(again.has_value(), "what was taken is taken again");
    fuzz::require(again->host == url->host && again->port == url->port && again->tls == url->tls &&
                      again->path == url->path && again->query == url->query,
                  "and means the same");
}

void check_source(const std::string& source) {
    const auto parsed = s3::parse_source(source);
    if (!parsed) return;
    const auto& [bucket, prefix] = *parsed;
    fuzz::require(!bucket.empty() && bucket.find('/') == bucket.npos, "a bucket has a name");
    fuzz::require(prefix.empty() || (prefix.ends_with('/') && !prefix.starts_with('/')),
                  "a prefix ends in /");
    fuzz::require(("/" + prefix).find("/../") == std::string::npos, "a prefix leads nowhere else");
    const auto again = s3::parse_source("s3://" + bucket + "/" + prefix);
    fuzz::require(again && *again == *parsed, "what was taken is taken again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    auto text = fuzz::text_of(data, size);
    check_encoding(text);
    Settings settings;
    settings.s3_endpoint = fuzz::take_line(text);
    settings.source = fuzz::take_line(text);
    settings.s3_region = fuzz::take_line(text);
    const auto style = fuzz::take_line(text);
    settings.s3_addressing = style == "path"      ? AddressingStyle::path
                             : style == "virtual" ? AddressingStyle::virtual_host
                                                  : AddressingStyle::automatic;
    check_url(settings.s3_endpoint);
    check_source(settings.source);
    (void)directory_of_source(settings.source);
    const auto target = s3::resolve_target(settings, {}, {});
    if (!target) return 0;
    const auto url = http::parse_url(target->base() + target->path("a key?#"));
    fuzz::require(url && url->tls == target->endpoint.tls, "requests go to a URL");
    auto host = target->host();
    std::transform(host.begin(), host.end(), host.begin(), [](unsigned char c) { return std::tolower(c); });
    fuzz::require(url->authority() == host, "and to the host that is signed");
    fuzz::require(url->query.empty() && url->path.ends_with("/a%20key%3F%23"), "with the key as its path");
    fuzz::require(!target->identity().empty(), "a source has an identity");
    return 0;
}
