#include "backends/s3/client/sigv4.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "backends/http/url.hpp"
#include "config/base/hex.hpp"
#include "config/base/text.hpp"

namespace tierfs::s3 {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

const unsigned char* as_bytes(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

std::string hmac(std::string_view key, std::string_view data) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    // An empty view may have no address, which OpenSSL would take for "the key of last time".
    if (HMAC(EVP_sha256(), key.empty() ? "" : key.data(), static_cast<int>(key.size()), as_bytes(data),
             data.size(), digest.data(), &length) == nullptr)
        throw std::runtime_error("OpenSSL: HMAC-SHA256 is not available");
    return {digest.begin(), digest.begin() + length};
}

/// Leading and trailing blanks go, runs of blanks become one.
std::string canonical_value(std::string_view value) {
    std::string text;
    for (const char c : value) {
        const bool blank = c == ' ' || c == '\t';
        if (blank && (text.empty() || text.back() == ' ')) continue;
        text += blank ? ' ' : c;
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
}

}  // namespace

std::string sha256_hex(std::string_view data) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(as_bytes(data.empty() ? "" : data), data.size(), digest.data());
    return to_hex(std::string(digest.begin(), digest.end()));
}

std::string canonical_query(const Query& query) {
    Query encoded;
    encoded.reserve(query.size());
    for (const auto& [name, value] : query)
        encoded.emplace_back(http::percent_encode(name), http::percent_encode(value));
    std::sort(encoded.begin(), encoded.end());
    std::string text;
    for (const auto& [name, value] : encoded) {
        if (!text.empty()) text += '&';
        text += name + '=' + value;
    }
    return text;
}

std::string Signer::signing_key(const std::string& secret, const std::string& day) {
    const MutexLock lock(mutex_);
    if (secret != key_secret_ || day != key_day_) {
        key_ = hmac(hmac(hmac(hmac("AWS4" + secret, day), region_), service_), "aws4_request");
        key_secret_ = secret;
        key_day_ = day;
    }
    return key_;
}

std::vector<http::Header> Signer::sign(const SigningInput& input, const Credentials& credentials,
                                       std::time_t now) {
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    std::array<char, 32> stamp{};
    std::strftime(stamp.data(), stamp.size(), "%Y%m%dT%H%M%SZ", &utc);
    const std::string time(stamp.data()), day = time.substr(0, 8);

    std::vector<http::Header> added{{"x-amz-date", time}, {"x-amz-content-sha256", input.payload_sha256}};
    if (!credentials.session_token.empty())
        added.emplace_back("x-amz-security-token", credentials.session_token);

    std::vector<http::Header> signed_headers{{"host", input.host}};
    for (const auto& [name, value] : input.headers)
        signed_headers.emplace_back(to_lower(name), canonical_value(value));
    for (const auto& [name, value] : added) signed_headers.emplace_back(name, canonical_value(value));
    // By name alone: a comparison of whole lines would put "a-b:" before "a:".
    std::stable_sort(signed_headers.begin(), signed_headers.end(),
                     [](const http::Header& a, const http::Header& b) { return a.first < b.first; });
    std::string lines, names;
    for (const auto& [name, value] : signed_headers) {
        lines += name + ':' + value + '\n';
        if (!names.empty()) names += ';';
        names += name;
    }
    const std::string canonical = input.method + '\n' + input.path + '\n' + input.query + '\n' + lines +
                                  '\n' + names + '\n' + input.payload_sha256;
    const std::string scope = day + '/' + region_ + '/' + service_ + "/aws4_request";
    const std::string to_sign =
        std::string(kAlgorithm) + '\n' + time + '\n' + scope + '\n' + sha256_hex(canonical);
    const std::string signature = to_hex(hmac(signing_key(credentials.secret_key, day), to_sign));
    added.emplace_back("Authorization", std::string(kAlgorithm) + " Credential=" + credentials.access_key +
                                            '/' + scope + ",SignedHeaders=" + names +
                                            ",Signature=" + signature);
    return added;
}

}  // namespace tierfs::s3
