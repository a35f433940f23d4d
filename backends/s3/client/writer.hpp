// Writing to a bucket: PUT and multipart uploads.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
#pragma once

#include "backends/origin/writable_origin.hpp"
#include "backends/s3/client/client.hpp"
#include "backends/s3/client/keys.hpp"

namespace tierfs::s3 {

/// See WritableOrigin. Every body travels with its Content-MD5, which the server compares; over plain HTTP
/// its SHA-256 is part of the signature too, over TLS the signature says UNSIGNED-PAYLOAD. `client` must
/// outlive this. Counts in the client's stats.
///
/// CompleteMultipartUpload may answer 200 and say in the body that it failed, or fail after it has taken
/// effect: the body is read, and HEAD decides.
class Writer final : public WritableOrigin {
  public:
    Writer(Client& client, Target target, Ownership ownership, std::chrono::milliseconds deadline)
        : client_(client), target_(std::move(target)), ownership_(ownership), deadline_(deadline) {}

    [[nodiscard]] UploadLimits limits() const override;
    Result<Written> put(const std::string& path, std::span<const std::byte> bytes, const PutOptions& options,
                        const std::string& checksum_md5) override;
    Result<Upload> begin(const std::string& path, const PutOptions& options) override;
    Result<UploadPart> part(const Upload& upload, unsigned number, std::uint64_t offset,
                            std::span<const std::byte> bytes, const std::string& checksum_md5) override;
    Result<std::vector<UploadPart>> parts(const Upload& upload, std::uint64_t part_size) override;
    Result<Written> complete(const Upload& upload, std::span<const UploadPart> parts,
                             const PutOptions& options) override;
    Result<void> abort(const Upload& upload) override;
    Result<std::vector<PendingUpload>> pending(const std::string& path) override;
    Result<Attributes> stat_file(const std::string& path) override;
    Result<std::string> checksum(const std::string& path, std::uint64_t part_size) override;
    Result<void> remove(const std::string& path) override;

  private:
    [[nodiscard]] Operation operation(RequestKind kind, const std::string& path) const;
    /// With a body, which stays the caller's.
    [[nodiscard]] Result<Operation> sending(RequestKind kind, const std::string& path,
                                            std::span<const std::byte> bytes, std::string checksum_md5) const;
    /// One attempt at completing; what the body says counts.
    Result<std::string> complete_once(const Upload& upload, std::span<const std::byte> document,
                                      const PutOptions& options);
    [[nodiscard]] std::string describe(const std::string& path) const;

    Client& client_;
    const Target target_;
    const Ownership ownership_;
    const std::chrono::milliseconds deadline_;
};

}  // namespace tierfs::s3
