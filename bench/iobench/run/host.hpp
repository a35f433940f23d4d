// What a figure depends on besides the thing measured.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/result.hpp"

namespace tierfs::iobench {

/// Kernel, processors, memory, load, and the file system that `path` is on: {"kernel": …, "cpus": …, …}.
nlohmann::ordered_json host_facts(const std::string& path);

enum class DropCaches { none, page, all };

/// sync(2), then /proc/sys/vm/drop_caches: `page` the page cache, `all` also dentries and inodes. Needs root.
Result<void> drop_caches(DropCaches what);

}  // namespace tierfs::iobench
