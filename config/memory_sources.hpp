// The places where the kernel says how much memory there is. Internal to config.
#pragma once

#include <cstdint>
#include <string>

namespace tierfs {

/// Roots of the kernel's files; a test puts its own folders here. A plain value.
/// Sources: proc(5), Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst of the kernel.
struct MemoryRoots {
    std::string proc = "/proc";
    std::string cgroup = "/sys/fs/cgroup";
};

/// As the functions of the same name in memory_plan.hpp; bytes. What cannot be read counts as absent.
std::uint64_t resident_memory(const MemoryRoots& roots);
std::uint64_t default_memory_limit(const MemoryRoots& roots);

}  // namespace tierfs
