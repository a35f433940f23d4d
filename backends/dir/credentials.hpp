// Credentials of a process, as proc(5) shows them.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tierfs {

struct Credentials {
    std::vector<gid_t> groups;       ///< further ones
    std::uint64_t capabilities = 0;  ///< those in effect, a bit each
    [[nodiscard]] bool may(unsigned capability) const { return (capabilities >> capability & 1U) != 0; }
    [[nodiscard]] bool is_in(gid_t group) const {
        return std::find(groups.begin(), groups.end(), group) != groups.end();
    }
};

/// Reads /proc/PID/status. A line that it lacks, or that holds no number, gives the process nothing. Pure.
Credentials read_credentials(std::string_view status);

/// The same of a thread that waits for an answer; 0, or one that is gone: it may nothing.
Credentials credentials_of(pid_t thread);

}  // namespace tierfs
