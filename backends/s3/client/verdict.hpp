// Judgement of a reply of S3: done, wrong for good, or worth another attempt.
#pragma once

#include "backends/http/request.hpp"
#include "backends/s3/client/endpoint.hpp"
#include "backends/s3/client/xml.hpp"

namespace tierfs::s3 {

/// How to go on after a reply.
enum class Verdict : std::uint8_t {
    good,
    repeat,             ///< the same again may work
    other_region,       ///< the bucket is in `region`
    wrong_clock,        ///< sign with the server's time
    renew_credentials,  ///< unknown or expired key
    final_error,
};

struct Judgement {
    Verdict verdict = Verdict::good;
    Error error;         ///< for all but good
    std::string region;  ///< for other_region
};

/// What was asked for: the bytes [offset, offset + size) of `version`. Size 0: not a ranged read.
struct Expectation {
    std::uint64_t offset = 0;
    std::size_t size = 0;
    std::string version;
    bool writing = false;                                     ///< PUT, POST or DELETE
    std::optional<std::uint64_t> object_size = std::nullopt;  ///< of the whole object; empty: whatever it is
};

/// `what` names the request ("GET s3://b/k at http://…") in the error's text.
Judgement judge(const http::Response& response, const Expectation& expected, const Target& target,
                const std::string& what);

/// First, last and total of "bytes 0-9/100"; total empty for '*'. Empty for anything else.
struct ContentRange {
    std::uint64_t first = 0, last = 0;
    std::optional<std::uint64_t> total;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

}  // namespace tierfs::s3
