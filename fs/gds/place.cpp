#include "fs/gds/place.hpp"

#include <linux/magic.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "fs/gds/host_files.hpp"

namespace tierfs::gds {

namespace {

// XFS's and others' magic numbers are not in linux/magic.h.
constexpr std::uint64_t kXfsMagic = 0x58465342;
constexpr std::uint64_t kFuseMagic = 0x65735546;
constexpr std::uint64_t kZfsMagic = 0x2fc12fc1;
constexpr std::uint64_t kLustreMagic = 0x0bd00bd0;

constexpr std::uint64_t kBlock = 4096;
constexpr double kLeastFree = 0.05;

const char* const kElsewhere =
    "Stage onto XFS (or ext4 with data=ordered) on a bare NVMe partition and let programs read there.";

std::string name_of(const Place& place) {
    const std::string type = place.type.empty() ? "this file system" : place.type;
    return type + (place.mountpoint.empty() ? "" : " at " + place.mountpoint) +
           (place.source.empty() ? "" : " (" + place.source + ")");
}

/// File systems that can never qualify, and why.
struct Refused {
    std::uint64_t magic;
    const char* why;
};

constexpr std::array kRefused = {
    Refused{
        kFuseMagic,
        "A FUSE file system can never qualify: its bytes come from a process through the kernel's FUSE "
        "queue, so "
        "that there is no block device behind a file to which a GPU's memory could be given. cuFile reads it "
        "through the processor's memory. That is so for every FUSE mount, tierfs's own included."},
    Refused{TMPFS_MAGIC, "tmpfs keeps files in the processor's memory: there is no device to read from."},
    Refused{RAMFS_MAGIC, "ramfs keeps files in the processor's memory: there is no device to read from."},
    Refused{
        OVERLAYFS_SUPER_MAGIC,
        "overlayfs stands between the file and its device, and cuFile does not look below it. The root of a "
        "container is usually one: bind-mount a folder of the host into the container instead."},
    Refused{BTRFS_SUPER_MAGIC,
            "btrfs writes copies, keeps checksums and may compress: cuFile does not accept it."},
    Refused{kZfsMagic, "ZFS reads through its own cache and checksums: cuFile does not accept it."},
    Refused{SQUASHFS_MAGIC, "squashfs is compressed: blocks of the device are not the bytes of the file."},
};

void judge_nfs(const Place& place, Findings& findings) {
    if (has_option(place.super_options, "proto=rdma")) {
        warn(findings, "file-system", name_of(place) + ": NFS over RDMA",
             {"nvidia-fs reads it directly only with an NFS client that is built for it (Mellanox OFED's or "
              "the "
              "vendor's); the one of the kernel is not.",
              "See that the vendor's NFS modules are loaded."},
             Backends::nvidia_fs);
    } else {
        fail(findings, "file-system", name_of(place) + ": NFS without RDMA",
             {"Over TCP the data arrives in the processor's memory.", kElsewhere}, Backends::nvidia_fs);
    }
    fail(findings, "file-system", name_of(place) + ": a network file system",
         {"PCI P2PDMA is for files on local NVMe devices.", kElsewhere}, Backends::p2pdma);
}

void judge_lustre(const Place& place, Findings& findings) {
    warn(findings, "file-system", name_of(place) + ": Lustre",
         {"nvidia-fs reads it directly only with a client that is built with GPUDirect Storage.",
          "Ask the vendor of the client; gdscheck -p says whether it is."},
         Backends::nvidia_fs);
    fail(findings, "file-system", name_of(place) + ": a network file system",
         {"PCI P2PDMA is for files on local NVMe devices.", kElsewhere}, Backends::p2pdma);
}

void judge_ext(const Place& place, Findings& findings) {
    if (place.type == "ext2" || place.type == "ext3") {
        fail(findings, "file-system", name_of(place) + ": not ext4",
             {"Of the ext family cuFile accepts ext4 only.", kElsewhere});
        return;
    }
    pass(findings, "file-system", name_of(place) + ": ext4");
    for (const auto* mode : {"data=journal", "data=writeback"}) {
        if (!has_option(place.super_options, mode) && !has_option(place.options, mode)) continue;
        fail(findings, "journal", std::string("mounted with ") + mode,
             {"cuFile accepts ext4 in the mode data=ordered only.", "Mount it with data=ordered."});
        return;
    }
    if (has_option(place.super_options, "data=ordered")) {
        pass(findings, "journal", "mounted with data=ordered");
    } else {
        warn(findings, "journal", "the mount table does not say data=ordered",
             {"It is the default, but cuFile looks for the words in the mount table and may refuse a mount "
              "that "
              "lacks them.",
              "Mount it with -o data=ordered said explicitly."});
    }
}

void judge_realtime(const Place& place, Findings& findings) {
    if (place.super_options.find("rtdev=") == std::string::npos) {
        pass(findings, "realtime", "no realtime subvolume");
        return;
    }
    fail(findings, "realtime", "this XFS has a realtime subvolume",
         {"Realtime files lie on another device than the one that stat tells, and cuFile would judge the "
          "wrong one.",
          "Stage onto an XFS without -o rtdev."});
}

void judge_type(const Place& place, Findings& findings) {
    switch (place.magic) {
        case kXfsMagic:
            pass(findings, "file-system", name_of(place) + ": XFS");
            judge_realtime(place, findings);
            return;
        case EXT4_SUPER_MAGIC:
            judge_ext(place, findings);
            return;
        case NFS_SUPER_MAGIC:
            judge_nfs(place, findings);
            return;
        case kLustreMagic:
            judge_lustre(place, findings);
            return;
        default:
            break;
    }
    const auto* refused = std::find_if(kRefused.begin(), kRefused.end(),
                                       [&](const Refused& one) { return one.magic == place.magic; });
    fail(findings, "file-system", name_of(place) + ": not one that cuFile reads directly",
         {refused == kRefused.end() ? "cuFile knows XFS, ext4 and some network file systems." : refused->why,
          kElsewhere});
}

void judge_alignment(const Place& place, Findings& findings) {
    const std::string sizes = "offsets on " + std::to_string(place.offset_alignment) + ", memory on " +
                              std::to_string(place.memory_alignment) + " bytes";
    if (!place.alignment_known) {
        skip(findings, "alignment", "what direct I/O asks for is not known",
             "the kernel or the file system does not answer STATX_DIOALIGN (Linux 6.1 and later, regular "
             "files)");
    } else if (place.offset_alignment == 0) {
        fail(findings, "alignment", "files here cannot be opened for direct I/O",
             {"The direct path is direct I/O.",
              "Look for what forbids it: encryption, verity, compression, data journalling, inline data."});
    } else if (place.offset_alignment > kBlock || place.memory_alignment > kBlock) {
        fail(findings, "alignment", "direct I/O wants " + sizes,
             {"cuFile and nvidia-fs align to 4096 bytes.", kElsewhere});
    } else {
        pass(findings, "alignment", "direct I/O with " + sizes);
    }
}

void judge_space(const Place& place, Findings& findings) {
    const std::string text = size_text(place.free_bytes) + " of " + size_text(place.total_bytes) + " free";
    if (place.total_bytes == 0) {
        skip(findings, "free-space", "free space is not known", "the file system does not tell its size");
    } else if (static_cast<double>(place.free_bytes) < kLeastFree * static_cast<double>(place.total_bytes)) {
        warn(findings, "free-space", text,
             {"In a file system that is nearly full files come in many extents.",
              "Evict what is not needed."});
    } else {
        pass(findings, "free-space", text);
    }
}

void judge_mount_options(const Place& place, Findings& findings) {
    if (has_option(place.options, "noatime")) {
        pass(findings, "noatime", "mounted with noatime");
    } else {
        warn(findings, "noatime", "mounted without noatime",
             {"The first read of each file, and one a day, writes to the journal.",
              "Mount it with -o noatime."});
    }
    if (has_option(place.options, "ro") || has_option(place.super_options, "ro")) {
        warn(findings, "writable", "mounted read-only",
             {"What is there can be read, but nothing can be staged.", "Mount it read-write to stage."});
    } else {
        pass(findings, "writable", "mounted read-write");
    }
}

void judge_file(const Place& place, Findings& findings) {
    if (!place.is_file) return;
    if (place.file_allocated >= place.file_size) {
        pass(findings, "sparse", "the file has no holes");
        return;
    }
    warn(findings, "sparse",
         size_text(place.file_allocated) + " are allocated for a file of " + size_text(place.file_size),
         {"What has no block on the device is filled in by another, slower way.",
          "Stage the file: tierfs-stage writes every block."});
}

}  // namespace

bool on_block_device(const Place& place) {
    return place.magic == kXfsMagic || place.magic == EXT4_SUPER_MAGIC;
}

void judge_place(const Place& place, Findings& findings) {
    judge_type(place, findings);
    if (on_block_device(place)) {
        if (place.block_size == kBlock) {
            pass(findings, "block-size", "blocks of 4096 bytes");
        } else {
            warn(findings, "block-size", "blocks of " + std::to_string(place.block_size) + " bytes",
                 {"Of blocks that are no pages, holes and file ends fall where cuFile has to bounce.",
                  "Make the file system with blocks of 4096 bytes."});
        }
        judge_alignment(place, findings);
        judge_mount_options(place, findings);
        judge_file(place, findings);
    }
    judge_space(place, findings);
}

}  // namespace tierfs::gds
