// Conditions of uploads: If-None-Match and If-Match.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
#pragma once

#include <cerrno>

#include "backends/origin/writable_origin.hpp"
#include "backends/s3/client/client.hpp"

namespace tierfs::s3 {

inline bool has_condition(const PutOptions& options) {
    return options.only_if_absent || !options.only_if_version.empty();
}

inline void add_condition(Operation& operation, const PutOptions& options) {
    if (options.only_if_absent) operation.headers.emplace_back("If-None-Match", "*");
    if (!options.only_if_version.empty()) operation.headers.emplace_back("If-Match", options.only_if_version);
}

/// What an upload's error means under its condition: an object that should have been there and is another one
/// or none is ESTALE. A server that does not know conditions refuses the request in one way or another.
inline Error within_condition(Error error, const PutOptions& options) {
    const bool is_refused = error.code == EEXIST || error.code == ENOENT;
    if (is_refused && !options.only_if_version.empty()) error.code = ESTALE;
    if (has_condition(options) && (error.code == EOPNOTSUPP || error.code == EIO))
        error.message +=
            " (the upload was conditional, with If-Match or If-None-Match, for writes.exclusive or O_EXCL: "
            "does the server know that?)";
    return error;
}

}  // namespace tierfs::s3
