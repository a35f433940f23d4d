#include "backends/s3/client/verdict.hpp"

#include <charconv>

#include "backends/http/retry.hpp"
#include "backends/s3/client/keys.hpp"

namespace tierfs::s3 {
namespace {

using http::Failure;

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

/// A hint for the commonest mistake in endpoints; empty if it is not this one.
std::string tls_hint(const http::Response& response, const Target& target) {
    if (target.endpoint.tls) {
        const bool plain =
            response.failure == Failure::tls && (contains(response.detail, "wrong version number") ||
                                                 contains(response.detail, "unknown protocol") ||
                                                 contains(response.detail, "packet length too long") ||
                                                 contains(response.detail, "record layer"));
        return plain ? ": the endpoint speaks plain HTTP: use http://" : "";
    }
    const bool garbage = response.failure == Failure::protocol && contains(response.detail, "HTTP/0.9");
    const bool said_so = response.status == 400 &&
                         (contains(response.body, "HTTPS port") || contains(response.body, "HTTPS server"));
    return garbage || said_so ? ": the endpoint speaks TLS: use https://" : "";
}

Judgement judge_failure(const http::Response& response, const Target& target, const std::string& what) {
    Judgement judgement;
    judgement.verdict = http::worth_repeating(response) ? Verdict::repeat : Verdict::final_error;
    int code = EIO;
    if (response.failure == Failure::cancelled) code = ECANCELED;
    if (response.failure == Failure::deadline || response.failure == Failure::stalled) code = ETIMEDOUT;
    if (response.failure == Failure::connect) code = EHOSTUNREACH;
    judgement.error = Error{code, what + ": " + response.detail + tls_hint(response, target)};
    if (response.failure == Failure::too_large && response.status == 200)
        judgement.error.message += " (the server does not know Range)";
    return judgement;
}

/// Of PUT, POST and DELETE; 0: as of all requests.
int errno_of_write(int status, std::string_view code) {
    if (code == "QuotaExceeded") return EDQUOT;
    if (status == 507) return ENOSPC;
    if (code == "EntityTooLarge") return EFBIG;
    if (code == "KeyTooLongError") return ENAMETOOLONG;
    if (status == 412) return EEXIST;  // If-None-Match; If-Match is told apart by who sent it
    if (status == 409) return EBUSY;
    if (status == 405 || status == 501) return EOPNOTSUPP;
    return 0;
}

int errno_of(int status, std::string_view code) {
    if (status == 404) return ENOENT;
    if (status == 401 || status == 403) return EACCES;
    if (status == 412 || status == 416) return ESTALE;
    if (code == "ExpiredToken" || code == "InvalidToken" || code == "AccessDenied") return EACCES;
    return EIO;
}

bool is_stale_key(std::string_view code) {
    return code == "ExpiredToken" || code == "ExpiredTokenException" || code == "InvalidAccessKeyId" ||
           code == "TokenRefreshRequired";
}

std::string describe(const http::Response& response, const ErrorBody& body) {
    std::string text = std::to_string(response.status);
    if (!body.code.empty()) text += " " + body.code;
    if (!body.message.empty()) text += ": " + body.message;
    if (body.code == "InvalidObjectState") text += " (archived: it must be restored before it can be read)";
    return text;
}

Verdict verdict_of_error(const http::Response& response, const ErrorBody& body, bool writing) {
    const int status = response.status;
    if (http::worth_repeating(response)) return Verdict::repeat;
    if (body.code == "RequestTimeout" || body.code == "SlowDown") return Verdict::repeat;
    // The bytes were damaged on the way; another operation on the key was under way.
    if (writing && (body.code == "BadDigest" || body.code == "XAmzContentSHA256Mismatch" ||
                    body.code == "OperationAborted"))
        return Verdict::repeat;
    if (body.code == "RequestTimeTooSkewed") return Verdict::wrong_clock;
    if ((status == 400 || status == 401 || status == 403) && is_stale_key(body.code))
        return Verdict::renew_credentials;
    // A reply to HEAD has no body that could tell why: both repairs are cheap, and tried once.
    if (body.code.empty() && (status == 400 || status == 401 || status == 403))
        return Verdict::renew_credentials;
    return Verdict::final_error;
}

/// A server that copies or completes answers 200 before it knows how that ends, and tells an error in the
/// body: https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html. The status that goes with it.
int status_of(std::string_view code) {
    if (code == "PreconditionFailed") return 412;
    if (code == "NoSuchKey" || code == "NoSuchUpload" || code == "NoSuchBucket") return 404;
    if (code == "AccessDenied") return 403;
    if (code == "InvalidRequest" || code == "InvalidPart" || code == "InvalidPartOrder" ||
        code == "EntityTooSmall" || code == "EntityTooLarge" || code == "MalformedXML" ||
        code == "InvalidRange")
        return 400;
    return code == "SlowDown" || code == "ServiceUnavailable" ? 503 : 500;
}

Judgement judge_error(const http::Response& response, const Expectation& expected, const Target& target,
                      const std::string& what) {
    const auto body = parse_error(response.body);
    Judgement judgement;
    const int code = expected.writing ? errno_of_write(response.status, body.code) : 0;
    judgement.error = Error{code != 0 ? code : errno_of(response.status, body.code),
                            what + ": " + describe(response, body)};
    // Not this object is gone but all of them, or the mount is led astray: no reason to forget its name.
    if ((expected.size > 0 || expected.writing) && body.code == "NoSuchBucket") judgement.error.code = EIO;
    const int status = response.status;
    const auto region = response.header("x-amz-bucket-region");
    judgement.region = region.empty() ? body.region : std::string(region);
    if (!is_region(judgement.region)) judgement.region.clear();
    const bool redirect = status == 301 || status == 302 || status == 307 || status == 308;
    const bool misplaced = redirect || body.code == "AuthorizationHeaderMalformed" ||
                           body.code == "IllegalLocationConstraintException" ||
                           (status == 400 && !region.empty());
    if (misplaced && !judgement.region.empty() && judgement.region != target.region) {
        judgement.verdict = Verdict::other_region;
        judgement.error.message +=
            " (the bucket is in region " + judgement.region + ": set s3.region=" + judgement.region + ")";
        return judgement;
    }
    if (redirect && !body.endpoint.empty())
        judgement.error.message += " (the bucket is at " + body.endpoint + ": set s3.endpoint)";
    judgement.error.message += tls_hint(response, target);
    judgement.verdict = verdict_of_error(response, body, expected.writing);
    return judgement;
}

/// Size of the whole object, from a good reply to a ranged read.
std::optional<std::uint64_t> total_size(const http::Response& response) {
    if (response.status == 200) return response.received;
    const auto range = parse_content_range(response.header("content-range"));
    return range ? range->total : std::nullopt;
}

bool is_other_version(const http::Response& response, const Expectation& expected) {
    if (expected.version.empty()) return false;
    const auto etag = response.header("etag");
    const auto modified = http::parse_http_date(response.header("last-modified"));
    const auto total = total_size(response);
    const bool has_etag = expected.version.starts_with('"') || expected.version.starts_with("W/");
    if (has_etag) return !etag.empty() && make_version(etag, 0, 0) != expected.version;
    return modified && total && make_version("", *modified, *total) != expected.version;
}

/// Of the same tag weak and strong (RFC 9110, 8.8.1): a proxy changes bodies on their way, by compressing them, say.
bool is_weakened(std::string_view etag, std::string_view version) {
    const auto opaque = [](std::string_view tag) { return tag.starts_with("W/") ? tag.substr(2) : tag; };
    return etag.starts_with("W/") != version.starts_with("W/") && opaque(etag) == opaque(version);
}

Judgement judge_range(const http::Response& response, const Expectation& expected, const std::string& what) {
    const auto stale = [&](const std::string& why) {
        return Judgement{Verdict::final_error, Error{ESTALE, what + ": " + why}, {}};
    };
    const auto broken = [&](const std::string& why) {
        return Judgement{Verdict::repeat, Error{EIO, what + ": " + why}, {}};
    };
    if (const auto etag = response.header("etag"); is_weakened(etag, expected.version))
        return {
            Verdict::final_error,
            Error{EIO, what + ": the answer has the ETag " + std::string(etag) + " where the object has " +
                           expected.version +
                           ": something between here and the store changes bodies, a proxy that compresses, "
                           "say; have it leave them alone"},
            {}};
    if (is_other_version(response, expected)) return stale("the object has changed since it was looked up");
    const auto end = expected.offset + expected.size;
    if (response.status == 206) {
        const auto range = parse_content_range(response.header("content-range"));
        if (!range) return broken("the reply holds no valid Content-Range");
        if (range->total && *range->total < end) return stale("the object has become shorter");
        if (range->total && expected.object_size && *range->total != *expected.object_size)
            return stale("the object has " + std::to_string(*range->total) + " bytes, and " +
                         std::to_string(*expected.object_size) + " where it was looked up");
        if (range->first != expected.offset || range->last != end - 1)
            return broken("the reply holds another range than was asked for");
    } else if (expected.offset != 0) {
        return Judgement{Verdict::final_error, Error{EIO, what + ": the server does not know Range"}, {}};
    }
    if (response.received != expected.size)
        return broken("the reply has " + std::to_string(response.received) + " bytes instead of " +
                      std::to_string(expected.size));
    return {};
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
    if (!text.starts_with("bytes ")) return std::nullopt;
    const char* at = text.data() + 6;
    const char* const end = text.data() + text.size();
    const auto number = [&](std::uint64_t& value) {
        const auto [next, error] = std::from_chars(at, end, value);
        at = next;
        return error == std::errc{};
    };
    const auto skip = [&](char c) { return at != end && *at++ == c; };
    ContentRange range;
    if (!number(range.first) || !skip('-') || !number(range.last) || !skip('/')) return std::nullopt;
    if (range.last < range.first) return std::nullopt;
    if (at != end && *at == '*') return at + 1 == end ? std::optional(range) : std::nullopt;
    range.total.emplace();
    if (!number(*range.total) || at != end || *range.total <= range.last) return std::nullopt;
    return range;
}

Judgement judge(const http::Response& response, const Expectation& expected, const Target& target,
                const std::string& what) {
    if (response.failure != Failure::none) return judge_failure(response, target, what);
    if (expected.writing && response.status == 200 && contains(response.body, "<Error>")) {
        auto told = response;
        told.status = status_of(parse_error(response.body).code);
        return judge_error(told, expected, target, what);
    }
    const bool done = expected.writing && (response.status == 201 || response.status == 204);
    if (response.status != 200 && response.status != 206 && !done)
        return judge_error(response, expected, target, what);
    if (expected.size > 0) return judge_range(response, expected, what);
    return {};
}

}  // namespace tierfs::s3
