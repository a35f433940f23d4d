// Options of RocksDB for the index: small, bounded, checked. Internal to tiering/index.
#pragma once

#include <rocksdb/options.h>

#include <cstdint>
#include <memory>

#include "tiering/index/rocks_cache.hpp"

namespace rocksdb {
class Cache;
}

namespace tierfs {

/// Options with every buffer and file count bounded, so that RocksDB stays near `memory` bytes: half is the
/// block cache (strict; handed back in `cache`), half the memtables.
rocksdb::Options index_options(std::uint64_t memory, std::shared_ptr<rocksdb::Cache>& cache);

}  // namespace tierfs
