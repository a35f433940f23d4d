#include "tiering/index/rocks_options.hpp"

#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/write_buffer_manager.h>

#include <algorithm>

#include "tiering/index/format.hpp"

namespace tierfs {
namespace {

rocksdb::CompressionType compression() {
    const auto linked = rocksdb::GetSupportedCompressions();
    const bool lz4 = std::find(linked.begin(), linked.end(), rocksdb::kLZ4Compression) != linked.end();
    return lz4 ? rocksdb::kLZ4Compression : rocksdb::kNoCompression;
}

std::shared_ptr<rocksdb::TableFactory> tables(const std::shared_ptr<rocksdb::Cache>& cache) {
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = cache;
    table.block_size = 16 << 10;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
    table.whole_key_filtering = true;
    // Index and filters live in the cache too, in small pieces: nothing grows with the number of files.
    table.cache_index_and_filter_blocks = true;
    table.cache_index_and_filter_blocks_with_high_priority = true;
    table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
    table.partition_filters = true;
    table.format_version = 5;
    table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
    return std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewBlockBasedTableFactory(table));
}

}  // namespace

rocksdb::Options index_options(std::uint64_t memory, std::shared_ptr<rocksdb::Cache>& cache) {
    const std::uint64_t half = std::max<std::uint64_t>(memory / 2, 1 << 20);
    // One shard per 8 MiB, so that each holds hundreds of blocks: a strict cache fails when a shard is all
    // pinned.
    const int shard_bits = half >= (64U << 20U) ? 3 : half >= (16U << 20U) ? 1 : 0;
    cache = rocksdb::NewLRUCache(half, shard_bits, true, 0.3);

    rocksdb::Options options;
    options.create_if_missing = true;
    options.paranoid_checks = true;
    options.table_factory = tables(cache);
    options.compression = compression();
    options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(index_format::kPrefixBytes));

    // Almost all that is asked for is there: names that are not, a listing's record tells.
    options.optimize_filters_for_hits = true;

    options.write_buffer_size = static_cast<std::size_t>(half / 2);
    options.max_write_buffer_number = 2;
    options.write_buffer_manager =
        std::make_shared<rocksdb::WriteBufferManager>(static_cast<std::size_t>(half), nullptr);
    options.max_total_wal_size = 2 * half;
    options.target_file_size_base = 32 << 20;
    options.max_bytes_for_level_base = 128 << 20;
    options.max_background_jobs = 2;
    options.max_open_files = 256;

    options.keep_log_file_num = 2;
    options.max_log_file_size = 1 << 20;
    options.info_log_level = rocksdb::ERROR_LEVEL;
    options.max_manifest_file_size = 4 << 20;
    options.stats_dump_period_sec = 0;
    options.stats_persist_period_sec = 0;
    return options;
}

}  // namespace tierfs
