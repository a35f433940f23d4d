// Facts of the host that a figure depends on besides the thing measured.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "config/base/result.hpp"

namespace tierfs::iobench {

/// Kernel, processors, memory, load: {"kernel": …, "cpus": …, …}.
nlohmann::ordered_json host_facts();

/// Of the last minute; 0 when it is not known.
double load_average();

enum class DropCaches { none, page, all };

/// sync(2), then /proc/sys/vm/drop_caches: `page` the page cache, `all` also dentries and inodes. Needs root.
Result<void> drop_caches(DropCaches what);

/// How often page cache, and dentries and inodes, were dropped.
struct CacheDrops {
    std::uint64_t page = 0, slab = 0;

    bool operator==(const CacheDrops&) const = default;
};

/// Drops by drop_caches, here and in the children that were forked after the first call of this.
CacheDrops own_drops();

}  // namespace tierfs::iobench
