// Faults: errors that are not the caller's doing.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>

namespace tierfs {

/// Whether an errno is the fault of the origin or of this host, rather than an answer to what the caller asked for: such a one
/// has a line in the log.
inline bool is_fault(int code) {
    constexpr std::array kFaults = {EIO,    EACCES, ESTALE, ETIMEDOUT,    ENOSPC,       EDQUOT, EROFS,
                                    EMFILE, ENFILE, ENOMEM, ECONNREFUSED, EHOSTUNREACH, EAGAIN, EDEADLK};
    return std::find(kFaults.begin(), kFaults.end(), code) != kFaults.end();
}

}  // namespace tierfs
