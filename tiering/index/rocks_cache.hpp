// RocksDB's block cache, by its release's name for it; includes RocksDB. Internal to tiering/index.
#pragma once

#include <rocksdb/cache.h>
#if __has_include(<rocksdb/advanced_cache.h>)  // since RocksDB 8 the class has a header of its own
#include <rocksdb/advanced_cache.h>
#endif
