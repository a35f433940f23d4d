// The block devices below a file system, down to the hardware: /sys/dev/block, partitions, md, dm, loop,
// NVMe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fs/gds/finding.hpp"
#include "fs/gds/host_files.hpp"

namespace tierfs::gds {

enum class DeviceKind : std::uint8_t {
    nvme,
    nvme_head,
    partition,
    md,
    dm,
    loop,
    virtio,
    scsi,
    memory,
    other
};

/// An NVMe controller that leads to a namespace.
struct Controller {
    std::string name;       ///< "nvme0"
    std::string transport;  ///< "pcie", "rdma", "tcp", "fc", "loop"
    std::string pci_path;   ///< below /sys/devices; empty: not on PCI
};

/// Plain value. What the kernel does not tell is none or empty.
struct BlockDevice {
    std::string name;    ///< "nvme0n1p1"
    std::string number;  ///< "259:1"
    std::string path;    ///< below /sys/devices, without links
    DeviceKind kind = DeviceKind::other;
    std::string detail;  ///< md: its level; dm: "CRYPT", "LVM", "mpath", …; loop: the file behind it
    std::vector<Controller> controllers;
    std::optional<std::int64_t> stable_writes, logical_block;  ///< of the queue; a partition has its disk's
    std::string scheduler;
    unsigned depth = 0;  ///< 0: what the file system is on
};

/// The device and everything below it, depth first. Ends after 16 levels and 256 devices whatever /sys shows.
std::vector<BlockDevice> walk_devices(const HostFiles& files, unsigned major, unsigned minor);

std::string describe(const BlockDevice& device);  ///< "nvme0n1p1, a partition"

/// device, transport, multipath, stable-writes, logical-block, scheduler, udev.
void judge_devices(const HostFiles& files, const std::vector<BlockDevice>& devices, Findings& findings);

}  // namespace tierfs::gds
