// The digest that a body travels with, for the server to compare.
#pragma once

#include <openssl/evp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backends/s3/readwrite/byte_ranges.hpp"
#include "config/base/result.hpp"

namespace tierfs::s3 {

/// SHA-256 where the body is signed with it, Content-MD5 where it is not (TLS, nobody who signs).
enum class DigestKind : std::uint8_t { md5, sha256 };

/// Takes bytes in one after the other. Not thread-safe.
class BodyDigest {
  public:
    /// EIO: OpenSSL has no such digest here.
    static Result<BodyDigest> make(DigestKind kind);
    void add(std::span<const std::byte> bytes);
    /// Of all that was added until now: raw bytes.
    [[nodiscard]] std::string value() const;

  private:
    struct Free {
        void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
    };
    using Context = std::unique_ptr<EVP_MD_CTX, Free>;
    explicit BodyDigest(Context context) : context_(std::move(context)) {}

    Context context_;
};

/// Digests of the parts of a file that is written from front to back, made while its bytes are at hand: they
/// need not be read again before they are sent. Whole parts, and the beginning of one. Not thread-safe.
class PartDigests {
  public:
    explicit PartDigests(DigestKind kind) : kind_(kind) {}
    /// After forget() of the range: these bytes are there.
    void written(std::span<const std::byte> bytes, std::uint64_t offset);
    /// What is in [begin, end) is something else, or nobody knows.
    void forget(std::uint64_t begin, std::uint64_t end);
    /// Of these bytes; empty: not known.
    [[nodiscard]] std::string of(ByteRange range) const;

  private:
    const DigestKind kind_;
    std::map<unsigned, std::string> whole_;  ///< by the number of the part
    std::optional<BodyDigest> running_;
    ByteRange running_range_;
};

}  // namespace tierfs::s3
