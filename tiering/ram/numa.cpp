#include "tiering/ram/numa.hpp"

#include <numa.h>
#include <numaif.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include "config/base/log.hpp"
#include "config/base/result.hpp"

namespace tierfs {

namespace {

struct FreeMask {
    void operator()(bitmask* mask) const { numa_bitmask_free(mask); }
};
using Mask = std::unique_ptr<bitmask, FreeMask>;

unsigned node_of_caller() {
    unsigned processor = 0, node = 0;
    return ::getcpu(&processor, &node) == 0 ? node : 0;
}

/// Not MPOL_BIND: a node without free memory would end the process, although another one has some.
void prefer_node(void* memory, std::size_t bytes, int node) {
    const Mask mask(numa_allocate_nodemask());
    numa_bitmask_setbit(mask.get(), static_cast<unsigned>(node));
    if (::mbind(memory, bytes, MPOL_PREFERRED, mask->maskp, mask->size + 1, 0) == 0) return;
    log::warning("data memory cannot be placed on NUMA node " + std::to_string(node) + ": " +
                 system_error(errno, "mbind").message);
}

}  // namespace

NumaNodes NumaNodes::of_this_machine() {
    NumaNodes result;
    if (numa_available() < 0) return result;
    std::vector<int> nodes;
    const Mask allowed(numa_get_mems_allowed());
    const int highest = numa_max_node();
    for (int node = 0; node <= highest; ++node) {
        const bool has_memory = numa_node_size64(node, nullptr) > 0;
        if (has_memory && numa_bitmask_isbitset(allowed.get(), static_cast<unsigned>(node)) != 0)
            nodes.push_back(node);
    }
    if (nodes.size() < 2) return result;
    result.nodes = std::move(nodes);
    for (int from = 0; from <= highest; ++from) {
        std::vector<std::size_t> places(result.nodes.size());
        for (std::size_t place = 0; place < places.size(); ++place) places[place] = place;
        std::stable_sort(places.begin(), places.end(), [&](std::size_t one, std::size_t other) {
            return numa_distance(from, result.nodes[one]) < numa_distance(from, result.nodes[other]);
        });
        result.nearest.push_back(std::move(places));
    }
    result.current = node_of_caller;
    result.prefer = prefer_node;
    return result;
}

}  // namespace tierfs
