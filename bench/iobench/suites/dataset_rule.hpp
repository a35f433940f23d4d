// The rule against figures of the page cache: a dataset larger than the memory, or dropped caches.
#pragma once

#include <cstdint>
#include <string>

#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

/// All that the rule depends on. A plain value; bytes.
struct DatasetFacts {
    std::uint64_t dataset = 0;  ///< what one epoch reads
    std::uint64_t memory = 0;   ///< of the machine
    DropCaches drop = DropCaches::none;
    bool preset = false;      ///< a preset asks for the rule; without one a warm measurement may be meant
    bool can_drop = false;    ///< may write /proc/sys/vm/drop_caches
    bool drop_given = false;  ///< `drop` was asked for: it is kept
    bool in_memory = false;   ///< the dataset is on a tmpfs: there is nothing to drop
};

struct DatasetRule {
    std::string text;                    ///< the rule that was used; never empty
    std::string warning;                 ///< why the figures may be the page cache's; empty: no reason
    DropCaches drop = DropCaches::none;  ///< what to drop: as asked, or what the rule needs
};

/// MLPerf Storage asks for a dataset of at least 5 x the memory: of one that is little larger than the memory
/// the page cache still answers the larger part. For what is smaller a preset drops the page cache where that
/// is allowed and nothing else was asked for.
DatasetRule judge(const DatasetFacts& facts);

/// The rule for options.path, the facts taken from this machine. `drop_given`: options.drop was asked for.
Result<DatasetRule> dataset_rule(const RunOptions& options, bool drop_given);

}  // namespace tierfs::iobench
