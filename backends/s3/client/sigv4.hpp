// AWS Signature Version 4 for S3 and STS:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/http/request.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::s3 {

/// What a request is signed with. Secret: never logged, never part of an error text.
struct Credentials {
    std::string access_key, secret_key, session_token;
    friend bool operator==(const Credentials&, const Credentials&) = default;
};

using Query = std::vector<std::pair<std::string, std::string>>;  ///< not encoded, any order

/// "a=b&c=" encoded and sorted as the canonical request wants it. A URL carries the same text, so that what
/// is signed is what is sent.
std::string canonical_query(const Query& query);

/// Lower-case hexadecimal SHA-256.
std::string sha256_hex(std::string_view data);

struct SigningInput {
    std::string method;
    std::string host;                   ///< as the Host header says it
    std::string path;                   ///< percent-encoded once, as in the URL; "/" at least
    std::string query;                  ///< from canonical_query
    std::vector<http::Header> headers;  ///< all of them are signed; names in any case
    std::string payload_sha256;         ///< hexadecimal
};

/// Signs for one region and service. Keeps the day's signing key. Thread-safe.
class Signer {
  public:
    Signer(std::string region, std::string service)
        : region_(std::move(region)), service_(std::move(service)) {}

    /// The headers to send besides `input.headers`: x-amz-date, x-amz-content-sha256, x-amz-security-token
    /// when there is one, and Authorization.
    std::vector<http::Header> sign(const SigningInput& input, const Credentials& credentials, std::time_t now)
        TIERFS_EXCLUDES(mutex_);

    [[nodiscard]] const std::string& region() const { return region_; }

  private:
    std::string signing_key(const std::string& secret, const std::string& day) TIERFS_EXCLUDES(mutex_);

    const std::string region_, service_;
    Mutex mutex_;
    std::string key_secret_ TIERFS_GUARDED_BY(mutex_), key_day_ TIERFS_GUARDED_BY(mutex_),
        key_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs::s3
