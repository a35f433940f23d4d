// What `tierfs doctor` looks at outside of the daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fs/insight/snapshot.hpp"

namespace tierfs {

/// Plain value; nothing: it cannot be told here.
struct Host {
    struct Device {
        std::string path;       ///< of nvme.path
        std::string scheduler;  ///< the one in use; empty: unknown
        std::optional<bool> rotational;
    };
    std::optional<std::uint64_t> read_ahead_kib;  ///< of this mount
    std::optional<std::uint64_t>
        kernel_waiting;  ///< requests that the kernel has for the daemon, those it serves too
    std::optional<std::uint64_t> open_files;  ///< the daemon's limit of descriptors
    int kernel_major = 0, kernel_minor = 0;
    unsigned numa_nodes = 1;
    std::vector<Device> devices;
};

/// Of a mount with that device number ("0:52"). Reads files of /proc and /sys only, and asks what device the
/// folders of the cache lie on.
Host look_at_host(const std::string& device, const Snapshot& snapshot);

}  // namespace tierfs
