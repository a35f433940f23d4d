// The place that is judged: what statfs(2), statx(2) and /proc/self/mountinfo say of it, and what follows
// from that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fs/gds/finding.hpp"

namespace tierfs::gds {

/// Plain value; whoever asks the kernel fills it, a test makes it up.
struct Place {
    std::string path;
    std::string mountpoint, type, source;  ///< of mountinfo: "xfs", "fuse.tierfs"; empty when it is not there
    std::string options, super_options;    ///< of the mount and of the file system, separated by commas
    unsigned major = 0, minor = 0;         ///< of the file system's device; major 0: it has none
    std::uint64_t magic = 0;               ///< statfs's f_type
    std::uint64_t block_size = 0;          ///< bytes
    std::uint64_t free_bytes = 0, total_bytes = 0;
    bool is_file = false;                             ///< the path names a file, with these sizes
    std::uint64_t file_size = 0, file_allocated = 0;  ///< bytes, st_size and st_blocks * 512
    bool alignment_known = false;                     ///< the kernel answered STATX_DIOALIGN (Linux 6.1)
    std::uint32_t memory_alignment = 0, offset_alignment = 0;  ///< bytes; 0 and known: no direct I/O
};

/// Whether the file system is one that has a block device for cuFile to find.
bool on_block_device(const Place& place);

/// file-system, journal, realtime, block-size, alignment, noatime, writable, sparse, free-space.
void judge_place(const Place& place, Findings& findings);

}  // namespace tierfs::gds
