// Headers that settings add to the requests of a bucket: payer, owner, storage class, access list, encryption.
#pragma once

#include <string>
#include <vector>

#include "backends/http/request.hpp"
#include "backends/s3/client/sigv4.hpp"
#include "config/settings.hpp"

namespace tierfs::s3 {

struct Operation;

/// Knows which header belongs to which request (Amazon S3 API Reference: GetObject, HeadObject, PutObject,
/// CreateMultipartUpload, UploadPart, UploadPartCopy, CompleteMultipartUpload, CopyObject). Thread-safe once it is made.
class ObjectHeaders {
  public:
    ObjectHeaders() = default;

    /// Reads the file that s3.customer_key names. Errors: those of reading; EACCES: others may read the file;
    /// EINVAL: it holds no key, or `encrypted_wire` is false, so that the key would be seen by others.
    static Result<ObjectHeaders> from(const Settings& settings, bool encrypted_wire);

    void add_to(const Operation& operation, std::vector<http::Header>& headers) const;

  private:
    std::vector<http::Header> all_;      ///< of each request
    std::vector<http::Header> creates_;  ///< of what makes an object
    std::vector<http::Header> copies_;   ///< of what copies from another one
    std::vector<http::Header> holds_;    ///< of what sends or reads bytes: the customer's key
};

}  // namespace tierfs::s3
