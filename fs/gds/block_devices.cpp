#include "fs/gds/block_devices.hpp"

#include <algorithm>
#include <cctype>

namespace tierfs::gds {

namespace {

constexpr unsigned kDeepest = 16;
constexpr std::size_t kMost = 256;

/// The last part of a path in /sys/devices that is a PCI address: where the hardware sits.
std::string pci_part(const std::string& path) {
    std::size_t end = path.size();
    while (end > 0) {
        const auto slash = path.rfind('/', end - 1);
        if (slash == std::string::npos) return {};
        const std::string part = path.substr(slash + 1, end - slash - 1);
        // 0000:3b:00.0
        if (part.size() >= 12 && part[part.size() - 2] == '.' && part[part.size() - 5] == ':' &&
            part[part.size() - 8] == ':')
            return path.substr(0, end);
        end = slash;
    }
    return {};
}

bool is_controller(const std::string& name) {
    return name.starts_with("nvme") && name.size() > 4 &&
           std::all_of(name.begin() + 4, name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

Controller controller_at(const HostFiles& files, const std::string& path) {
    Controller controller;
    controller.name = path.substr(path.rfind('/') + 1);
    controller.transport = files.text(path + "/transport").value_or("");
    controller.pci_path = pci_part(path);
    return controller;
}

/// A head is a device of the subsystem, which has links to its controllers.
std::vector<Controller> controllers_of(const HostFiles& files, const BlockDevice& device) {
    const auto parent = files.canonical(device.path + "/device");
    if (!parent) return {};
    if (device.kind == DeviceKind::nvme) return {controller_at(files, *parent)};
    std::vector<Controller> found;
    for (const auto& name : files.list(*parent)) {
        if (!is_controller(name)) continue;
        if (const auto path = files.canonical(*parent + "/" + name))
            found.push_back(controller_at(files, *path));
    }
    return found;
}

DeviceKind kind_of(const HostFiles& files, const BlockDevice& device) {
    const std::string& path = device.path;
    if (files.exists(path + "/partition")) return DeviceKind::partition;
    if (files.exists(path + "/md")) return DeviceKind::md;
    if (files.exists(path + "/dm")) return DeviceKind::dm;
    if (device.name.starts_with("loop")) return DeviceKind::loop;
    if (device.name.starts_with("nvme"))
        return path.find("/nvme-subsystem/") == std::string::npos ? DeviceKind::nvme : DeviceKind::nvme_head;
    if (device.name.starts_with("vd")) return DeviceKind::virtio;
    if (device.name.starts_with("sd") || device.name.starts_with("sr")) return DeviceKind::scsi;
    if (device.name.starts_with("ram") || device.name.starts_with("zram") || device.name.starts_with("pmem"))
        return DeviceKind::memory;
    return DeviceKind::other;
}

std::string detail_of(const HostFiles& files, const BlockDevice& device) {
    switch (device.kind) {
        case DeviceKind::md:
            return files.text(device.path + "/md/level").value_or("unknown");
        case DeviceKind::loop:
            return files.text(device.path + "/loop/backing_file").value_or("");
        case DeviceKind::dm: {
            // The uuid begins with who made it: "CRYPT-LUKS2-…", "LVM-…", "mpath-…".
            const std::string uuid = files.text(device.path + "/dm/uuid").value_or("");
            return uuid.substr(0, uuid.find('-'));
        }
        default:
            return {};
    }
}

class Walk {
  public:
    explicit Walk(const HostFiles& files) : files_(files) {}

    void add(const std::string& path, unsigned depth) {
        if (depth > kDeepest || found.size() >= kMost) return;
        BlockDevice device;
        device.path = path;
        device.name = path.substr(path.rfind('/') + 1);
        device.number = files_.text(path + "/dev").value_or("");
        device.depth = depth;
        device.kind = kind_of(files_, device);
        device.detail = detail_of(files_, device);
        const bool nvme = device.kind == DeviceKind::nvme || device.kind == DeviceKind::nvme_head;
        if (nvme) device.controllers = controllers_of(files_, device);
        const std::string queue =
            (device.kind == DeviceKind::partition ? path.substr(0, path.rfind('/')) : path) + "/queue";
        device.stable_writes = files_.number(queue + "/stable_writes");
        device.logical_block = files_.number(queue + "/logical_block_size");
        device.scheduler = files_.text(queue + "/scheduler").value_or("");
        const bool partition = device.kind == DeviceKind::partition;
        found.push_back(std::move(device));
        if (partition) {
            add(path.substr(0, path.rfind('/')), depth + 1);
            return;
        }
        for (const auto& slave : files_.list(path + "/slaves")) {
            if (const auto below = files_.canonical(path + "/slaves/" + slave)) add(*below, depth + 1);
        }
    }

    std::vector<BlockDevice> found;

  private:
    const HostFiles& files_;
};

const char* const kBare = "Put the file system on a partition of a local NVMe device, with nothing between.";

void judge_md(const BlockDevice& device, Findings& findings) {
    const std::string text = describe(device);
    if (device.detail == "raid0") {
        warn(findings, "device", text,
             {"cuFile reads raid0 through nvidia-fs, but a file is then spread over all devices, whichever "
              "GPU reads it.",
              "One file system for each NVMe device, and whole files placed on them, keeps GPU and device "
              "together."},
             Backends::nvidia_fs);
        fail(findings, "device", text,
             {"Of the queue of an md device the kernel does not know that it could take the memory of a GPU.",
              kBare},
             Backends::p2pdma);
        return;
    }
    fail(findings, "device", text, {"Of the levels of md cuFile knows raid0 only.", kBare});
}

void judge_kind(const BlockDevice& device, Findings& findings) {
    const std::string text = describe(device);
    switch (device.kind) {
        case DeviceKind::nvme:
        case DeviceKind::partition:
            pass(findings, "device", text);
            return;
        case DeviceKind::nvme_head:
            warn(findings, "device", text,
                 {"The head of a multipath device chooses a controller for each request.",
                  "Set nvme_core.multipath=N."},
                 Backends::nvidia_fs);
            fail(findings, "device", text,
                 {"The head hides that the device behind it could take the memory of a GPU.",
                  "Boot with nvme_core.multipath=N; devices then appear without a head."},
                 Backends::p2pdma);
            return;
        case DeviceKind::md:
            judge_md(device, findings);
            return;
        case DeviceKind::dm:
            fail(findings, "device", text,
                 {"cuFile takes no device of the device mapper (LVM, dm-crypt, multipath): it would have to "
                  "know how "
                  "blocks are mapped, and encryption needs the processor.",
                  kBare});
            return;
        case DeviceKind::loop:
            fail(findings, "device", text,
                 {"A loop device reads a file of another file system in the kernel, with the processor's "
                  "memory.",
                  kBare});
            return;
        case DeviceKind::virtio:
            fail(findings, "device", text,
                 {"A virtual disk's data comes from the hypervisor's memory.",
                  "Give the machine the NVMe device itself (PCI passthrough)."});
            return;
        case DeviceKind::scsi:
        case DeviceKind::memory:
        case DeviceKind::other:
            fail(findings, "device", text, {"cuFile reads directly from NVMe devices only.", kBare});
            return;
    }
}

void judge_transport(const BlockDevice& device, Findings& findings) {
    if (device.kind != DeviceKind::nvme && device.kind != DeviceKind::nvme_head) return;
    if (device.controllers.empty())
        skip(findings, "transport", device.name + ": transport not known", "/sys shows no controller of it");
    if (device.controllers.size() > 1)
        warn(findings, "multipath",
             device.name + " has " + std::to_string(device.controllers.size()) + " controllers",
             {"Requests may go by a controller that is far from the GPU.", "Set nvme_core.multipath=N."});
    for (const auto& controller : device.controllers) {
        const std::string text =
            device.name + ": " + controller.name + " is attached by " +
            (controller.transport.empty() ? "an unknown transport" : controller.transport);
        if (controller.transport == "pcie") {
            pass(findings, "transport", text);
        } else if (controller.transport == "rdma") {
            pass(findings, "transport", text, Backends::nvidia_fs);
            fail(findings, "transport", text, {"PCI P2PDMA is for devices on this machine's PCIe.", kBare},
                 Backends::p2pdma);
        } else {
            fail(findings, "transport", text,
                 {"Only an NVMe device on PCIe (and, for nvidia-fs, one by RDMA) can reach the memory of a "
                  "GPU.",
                  kBare});
        }
    }
}

void judge_queue(const BlockDevice& device, Findings& findings) {
    if (device.kind == DeviceKind::partition) return;  // its disk follows
    if (!device.stable_writes) {
        skip(findings, "stable-writes", device.name + ": not known whether it needs stable writes",
             "the kernel has no queue/stable_writes (Linux 5.11)");
    } else if (*device.stable_writes != 0) {
        fail(findings, "stable-writes", device.name + " needs stable writes",
             {"It computes checksums or parity of data in flight, and XFS of current kernels then quietly "
              "reads and "
              "writes through the page cache, O_DIRECT or not.",
              "Format the namespace without protection information; do not use a device that computes "
              "parity."});
    } else {
        pass(findings, "stable-writes", device.name + " does not need stable writes");
    }
    if (device.logical_block && *device.logical_block > 4096)
        fail(
            findings, "logical-block",
            device.name + " has blocks of " + std::to_string(*device.logical_block) + " bytes",
            {"cuFile and nvidia-fs align to 4096 bytes.", "Format the namespace with blocks of 4096 bytes."});
    // "[none] mq-deadline": the one in brackets is used.
    if (device.kind != DeviceKind::nvme || device.scheduler.empty()) return;
    if (device.scheduler.find("[none]") != std::string::npos || device.scheduler == "none") {
        pass(findings, "scheduler", device.name + " has no I/O scheduler");
    } else {
        warn(findings, "scheduler", device.name + " has an I/O scheduler: " + device.scheduler,
             {"It costs time for each request and gains nothing on NVMe.",
              "echo none >/sys/block/" + device.name + "/queue/scheduler"});
    }
}

void judge_udev(const HostFiles& files, const BlockDevice& device, Findings& findings) {
    if (files.exists("/run/udev/data/b" + device.number)) {
        pass(findings, "udev", "udev's database knows " + device.name);
        return;
    }
    fail(findings, "udev", "udev's database does not know " + device.name,
         {"cuFile looks up each device there, and without an entry quietly reads through the processor's "
          "memory.",
          files.exists("/run/udev/data") ? "udevadm trigger --subsystem-match=block"
                                         : "Run udev; in a container, mount the host's: -v "
                                           "/run/udev:/run/udev:ro, and the data by a bind mount."});
}

}  // namespace

std::vector<BlockDevice> walk_devices(const HostFiles& files, unsigned major, unsigned minor) {
    Walk walk(files);
    if (const auto path =
            files.canonical("/sys/dev/block/" + std::to_string(major) + ":" + std::to_string(minor)))
        walk.add(*path, 0);
    return std::move(walk.found);
}

std::string describe(const BlockDevice& device) {
    switch (device.kind) {
        case DeviceKind::nvme:
            return device.name + ", an NVMe device";
        case DeviceKind::nvme_head:
            return device.name + ", the head of an NVMe multipath device";
        case DeviceKind::partition:
            return device.name + ", a partition";
        case DeviceKind::md:
            return device.name + ", md " + device.detail;
        case DeviceKind::dm:
            return device.name + ", device mapper" +
                   (device.detail.empty() ? "" : " (" + device.detail + ")");
        case DeviceKind::loop:
            return device.name + ", a loop device" + (device.detail.empty() ? "" : " of " + device.detail);
        case DeviceKind::virtio:
            return device.name + ", a virtual disk";
        case DeviceKind::scsi:
            return device.name + ", a SCSI, SAS or SATA device";
        case DeviceKind::memory:
            return device.name + ", a device in memory";
        case DeviceKind::other:
            break;
    }
    return device.name + ", a device of an unknown kind";
}

void judge_devices(const HostFiles& files, const std::vector<BlockDevice>& devices, Findings& findings) {
    if (devices.empty()) {
        fail(findings, "device", "the block device of the file system is not found",
             {"cuFile looks for it in /sys/dev/block.", "In a container, see that /sys is mounted."});
        return;
    }
    for (const auto& device : devices) {
        judge_kind(device, findings);
        judge_transport(device, findings);
        judge_queue(device, findings);
    }
    judge_udev(files, devices.front(), findings);
}

}  // namespace tierfs::gds
