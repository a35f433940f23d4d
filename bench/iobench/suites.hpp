// What iobench measures. A suite makes one run at a time; who calls it repeats it and takes medians.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/iobench/files.hpp"
#include "bench/iobench/host.hpp"
#include "config/result.hpp"

namespace tierfs::iobench {

/// What `iobench run` was asked. Sizes in bytes.
struct RunOptions {
    std::string suite, path, json, manifest;
    unsigned processes = 4, runs = 5;
    std::uint64_t seed = 1;
    DropCaches drop = DropCaches::none;
    // smallfiles and epoch
    std::uint64_t files = 0;           ///< at most so many of the shuffled files; 0: all
    std::uint64_t max_file = 4 << 20;  ///< larger files are left out
    // epoch
    unsigned batch = 32, prefetch = 2;
    double compute_ms = 10;
    // seqrand
    std::string file;  ///< relative to path; empty: the largest
    std::uint64_t reads = 4000;
    std::uint64_t bytes = 0;  ///< of the sequential read; 0: all
};

struct Metric {
    std::string name;  ///< ends in its unit: files_per_s, seconds
    double value = 0;
};

using Metrics = std::vector<Metric>;

/// Not thread-safe. Errors name the file and what is wrong.
class Suite {
  public:
    virtual ~Suite() = default;

    /// One run, caches dropped before it as the options say; `seed` belongs to this run.
    virtual Result<Metrics> run(std::uint64_t seed) = 0;
};

/// Each file opened, read to its end and closed, in shuffled order, by several processes.
Result<std::unique_ptr<Suite>> make_smallfiles(const RunOptions& options);

/// A trainer that takes batches in order from worker processes and computes on each for a given time.
Result<std::unique_ptr<Suite>> make_epoch(const RunOptions& options);

/// One large file: 1 MiB reads in order by one process, then 64 KiB reads at random places by several.
Result<std::unique_ptr<Suite>> make_seqrand(const RunOptions& options);

}  // namespace tierfs::iobench
