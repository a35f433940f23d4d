// Writing whole objects: small ones at once, large ones in parts that travel side by side.
#pragma once

#include <optional>

#include "backends/origin/origin.hpp"

namespace tierfs {

/// What is kept of a file beside its bytes. On S3 as metadata mode, uid, gid and mtime, written as s3fs
/// writes them: decimal st_mode with the file type, decimal ids, seconds with a fraction.
struct FileAttributes {
    std::uint32_t mode = 0644;  ///< permission bits
    std::uint32_t uid = 0, gid = 0;
    std::int64_t mtime_ns = 0;
};

struct PutOptions {
    bool only_if_absent = false;  ///< EEXIST when there is an object; S3's If-None-Match
    std::string only_if_version;  ///< when set: ESTALE when there is another version or none; S3's If-Match
    std::optional<FileAttributes> attributes;
};

/// What was written. `checksum` is what S3 calls the ETag, without quotes: of an object that came at once the
/// MD5 of its bytes, of one in N parts the MD5 of the parts' MD5s and "-N". Some servers, and encryption with
/// keys of a customer or of KMS, give another text: then it says nothing about the bytes.
struct Written {
    std::string version;  ///< as Attributes::version
    std::string checksum;
    std::uint64_t size = 0;
};

/// An upload in parts. `id` is secret-free text that another process can go on with.
struct Upload {
    std::string path, id;
    friend bool operator==(const Upload&, const Upload&) = default;
};

/// `number` counts from 1; `checksum` is the MD5 of its bytes (see Written).
struct UploadPart {
    unsigned number = 0;
    std::uint64_t size = 0;
    std::string checksum;
};

/// An upload that was begun and neither completed nor aborted.
struct PendingUpload {
    Upload upload;
    std::int64_t begun_s = 0;  ///< seconds since 1970, by the origin's clock
};

/// Bytes and numbers. S3's: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
struct UploadLimits {
    std::uint64_t smallest_part = 0;  ///< but for the last
    std::uint64_t largest_part = 0, largest_object = 0;
    unsigned most_parts = 0;
};

/// What an Origin can be written through (Origin::writable). Nobody sees an object before put() or complete()
/// has succeeded, and then the whole of it; when they return it is durable: a reply of the object store, or a
/// temporary file synced, renamed and its directory synced.
///
/// Thread-safe; all calls block, on S3 for at most the deadline of the settings beyond what the bytes need at
/// 256 KiB a second. Failures that pass are repeated within that time; all but complete() can be repeated as
/// they are, and after a failed complete() stat_file() tells whether it took effect after all. Parts must
/// have the same size but for the last, which may be shorter. Bytes belong to the caller and are not kept.
///
/// Errors beside Origin's: EEXIST and ESTALE (see PutOptions), EACCES, EROFS, ENOSPC, EDQUOT, EFBIG,
/// ENAMETOOLONG, ENOENT for an upload that is gone, EBUSY when others write to the name, EOPNOTSUPP for what
/// the server does not know. EEXIST may be about an earlier attempt of the same put() whose reply was lost.
class WritableOrigin {
  public:
    virtual ~WritableOrigin() = default;

    [[nodiscard]] virtual UploadLimits limits() const = 0;

    /// `checksum_md5`: of the bytes, when the caller has it already; 32 hexadecimal digits.
    virtual Result<Written> put(const std::string& path, std::span<const std::byte> bytes,
                                const PutOptions& options, const std::string& checksum_md5 = {}) = 0;

    /// `options` must be the same in complete().
    virtual Result<Upload> begin(const std::string& path, const PutOptions& options) = 0;

    /// `offset`: where in the object the part begins. Parts may come in any order, at the same time, and
    /// again.
    virtual Result<UploadPart> part(const Upload& upload, unsigned number, std::uint64_t offset,
                                    std::span<const std::byte> bytes,
                                    const std::string& checksum_md5 = {}) = 0;

    /// What has arrived of an upload of parts of this size, by number. ENOENT: there is no such upload.
    virtual Result<std::vector<UploadPart>> parts(const Upload& upload, std::uint64_t part_size) = 0;

    /// `parts`: all of them, by number.
    virtual Result<Written> complete(const Upload& upload, std::span<const UploadPart> parts,
                                     const PutOptions& options) = 0;

    /// Gives back what the parts take. An upload that is gone is no error.
    virtual Result<void> abort(const Upload& upload) = 0;

    /// Of this very path.
    virtual Result<std::vector<PendingUpload>> pending(const std::string& path) = 0;

    /// What is there, and its version; no directory is looked for. ENOENT: nothing.
    virtual Result<Attributes> stat_file(const std::string& path) = 0;

    /// The checksum (see Written) of what is there, if it was written in parts of `part_size` (0: at once).
    /// On S3 it is what the store says, whatever the part size; a directory's file is read.
    virtual Result<std::string> checksum(const std::string& path, std::uint64_t part_size) = 0;

    /// Nothing there is no error.
    virtual Result<void> remove(const std::string& path) = 0;
};

/// The size of parts for an object of `size` bytes: a multiple of `wanted` (not 0) that fits the limits;
/// EFBIG when none does. The same input gives the same size for good: checksums depend on it.
Result<std::uint64_t> part_size_for(std::uint64_t size, std::uint64_t wanted, const UploadLimits& limits);

/// Hexadecimal MD5. EIO where OpenSSL does not offer it (FIPS mode).
Result<std::string> md5_hex(std::span<const std::byte> bytes);

/// Written::checksum of an object in these parts: "…-N".
Result<std::string> checksum_of_parts(std::span<const UploadPart> parts);

/// Whether the text has the form of Written::checksum: else it says nothing.
bool is_checksum(std::string_view text);

}  // namespace tierfs
