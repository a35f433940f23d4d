// The division of memory.limit. One place decides, so that the sum holds.
#pragma once

#include <cstdint>
#include <optional>

#include "config/base/result.hpp"

namespace tierfs {

/// The shares of one memory limit, in bytes. `data` is one arena that holds both the RAM tier and the buffers
/// of fetches, readahead and cache writes in flight; the RAM tier gives way when those need room.
struct MemoryPlan {
    std::uint64_t limit = 0;
    std::uint64_t process = 0;   ///< code, stacks, allocator slack, libcurl's buffers: not ours to hand out
    std::uint64_t index = 0;     ///< RocksDB: block cache and memtables together
    std::uint64_t names = 0;     ///< node cache of fs/
    std::uint64_t tables = 0;    ///< of the NVMe tier: what is read often, what left, a chunk that moves, and
                                 ///< what compressing takes
    std::uint64_t data = 0;      ///< arena
    std::uint64_t ram_tier = 0;  ///< at most this much of the arena may be kept as RAM tier; 0: none

    /// ENOMEM with the smallest limit that would do when `limit` is too small (below 96 MiB).
    static Result<MemoryPlan> divide(std::uint64_t limit, std::optional<std::uint64_t> ram_limit,
                                     bool has_nvme = false, bool compresses = false);
};

/// Memory of this process as the limit counts it: RssAnon + RssShmem of /proc/self/status + HugetlbPages;
/// bytes.
std::uint64_t resident_memory();

/// min(25 % of the cgroup's (v1 or v2) limit or of physical memory, 8 GiB).
std::uint64_t default_memory_limit();

}  // namespace tierfs
