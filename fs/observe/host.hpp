// The machine as `tierfs doctor` looks at it, outside of the daemon.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fs/observe/cache_room.hpp"
#include "fs/observe/nvme_health.hpp"
#include "fs/observe/snapshot.hpp"

namespace tierfs {

/// Plain value; nothing: it cannot be told here.
struct Host {
    /// An NVMe controller below a device of the tier.
    struct Controller {
        std::string name;                ///< "nvme0"
        std::string state;               ///< "live" when it is well; empty: unknown
        std::string link, fastest_link;  ///< "16.0 GT/s PCIe, 4 lanes": as it is, and as it could be
        bool link_degraded = false;      ///< slower or narrower than the device can
        double link_bytes_per_s = 0;     ///< what the link carries at most; 0: unknown
        std::optional<unsigned> numa_node;
        bool daemon_is_far = false;  ///< the daemon may run on no processor of that node
        std::optional<NvmeHealth> health;
    };
    struct Device {
        std::string path;       ///< of nvme.path
        std::string scheduler;  ///< the one in use; empty: unknown
        std::optional<bool> rotational;
        std::string mountpoint, mount_options;  ///< of the file system; empty: unknown
        std::string raid, raid_level;           ///< "md0", "raid0" of the first below it; empty: none
        std::vector<Controller> controllers;
        CacheRoom room;               ///< limit and use: see Facts::interval
        double read_bytes_per_s = 0;  ///< by the daemon and, past it, by the kernel; see cache_device_reads
    };
    std::optional<std::uint64_t> read_ahead_kib;  ///< of this mount
    std::optional<std::uint64_t>
        kernel_waiting;  ///< requests that the kernel has for the daemon, those it serves too
    std::optional<std::uint64_t> open_files;  ///< the daemon's limit of descriptors
    /// Of who asks, for tierfs-stage and iobench: how much memory he may lock (unlimited, and for who has
    /// CAP_IPC_LOCK: nothing), and whether the kernel lets him use io_uring.
    std::optional<std::uint64_t> locked_bytes;
    std::optional<int> io_uring_disabled;  ///< kernel.io_uring_disabled, where it holds for him
    int kernel_major = 0, kernel_minor = 0;
    unsigned numa_nodes = 1;
    unsigned nvme_controllers = 0;  ///< of the host, those of the tier included
    std::vector<Device> devices;
};

/// Where it is looked for; a test has a tree and a controller of its own.
struct HostSources {
    std::string root;  ///< what lies in front of /proc and /sys
    std::function<std::optional<NvmeHealth>(const std::string& controller)> health = read_nvme_health;
};

/// Of a mount with that device number ("0:52"). Reads files of /proc and /sys, asks what device the folders
/// of the cache lie on, and the NVMe controllers of these how they are.
Host look_at_host(const std::string& device, const Snapshot& snapshot, const HostSources& sources = {});

/// Bytes that the block devices below the folders of the cache have been read, by the folder, since the host
/// started; folders whose device has no such count are left out.
std::map<std::string, std::uint64_t> cache_device_reads(const Snapshot& snapshot,
                                                        const HostSources& sources = {});

}  // namespace tierfs
