// The checksum that a source tells of its bytes.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tierfs::stage {

/// An ETag of 32 hexadecimal digits is the MD5 of an object that was put whole and not encrypted with a key
/// of KMS (Amazon S3, "Checking object integrity"). Whether it was so encrypted the ETag does not tell: so
/// who uses this must have been asked to. Movable; not thread-safe.
class SourceDigest {
  public:
    /// Nothing when the version is no such ETag.
    static std::optional<SourceDigest> of(const std::string& version);

    /// The next bytes.
    void add(std::span<const std::byte> data);
    /// All were added: whether they are those of the ETag. Once.
    [[nodiscard]] bool matches();

  private:
    struct Free {
        void operator()(EVP_MD_CTX* context) const { ::EVP_MD_CTX_free(context); }
    };
    explicit SourceDigest(std::string wanted);

    std::string wanted_;
    std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace tierfs::stage
