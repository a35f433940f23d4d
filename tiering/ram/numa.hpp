// Memory and the processors that it is near to.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tierfs {

/// The NUMA nodes that have memory this process may use. One node (or a kernel without NUMA): nothing is near
/// or far, and nothing is bound. A value; thread-safe.
struct NumaNodes {
    std::vector<int> nodes{0};  ///< as the kernel numbers them, never empty
    /// For a processor's node, as the kernel numbers it: places in `nodes`, the nearest first.
    std::vector<std::vector<std::size_t>> nearest;
    /// Of the processor that the caller runs on.
    std::function<unsigned()> current = [] { return 0U; };
    /// Pages of this memory that are not resident yet come from this node if it has free ones.
    std::function<void(void* memory, std::size_t bytes, int node)> prefer = [](void*, std::size_t, int) {};

    /// By libnuma (numa(3)), mbind(2) and getcpu(2).
    static NumaNodes of_this_machine();
};

}  // namespace tierfs
