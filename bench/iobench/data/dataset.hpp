// Makes datasets: many files of one kind in class directories, large files beside them, and tar shards of the
// same samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/iobench/data/index.hpp"
#include "bench/iobench/data/manifest.hpp"
#include "bench/iobench/data/payload.hpp"

namespace tierfs::iobench {

struct LargeFile {
    std::string name;  ///< relative to the dataset, without "..", tab or newline
    std::uint64_t size = 0;
};

/// How samples are packed into tar shards; at most one is not 0, both 0: not at all.
struct ShardPlan {
    std::uint64_t count = 0;  ///< so many shards of as many samples each as can be
    std::uint64_t size = 0;   ///< bytes of samples in a shard: one is full when the next would go beyond

    [[nodiscard]] bool any() const { return count != 0 || size != 0; }
};

/// What to make. A plain value.
struct DatasetPlan {
    std::string directory;
    Kind kind = Kind::jpeg;
    std::uint64_t files = 0;
    std::uint64_t records = 1;      ///< samples in each of `files`; more than 1 only of Kind::tfrecord
    std::uint64_t size = 0;         ///< bytes of each sample, or their mean
    std::uint64_t size_stdev = 0;   ///< bytes; 0: all of one size
    std::uint64_t directories = 0;  ///< 0: one for each 1000 files begun
    std::uint64_t seed = 1;
    std::vector<LargeFile> large;  ///< of random bytes, whatever `kind` is
    ShardPlan shards;
    unsigned threads = 0;  ///< 0: one a processor
};

struct DatasetOutcome {
    Manifest manifest;          ///< of everything that was made: files, large files, shards, indexes
    std::uint64_t written = 0;  ///< files
    std::uint64_t kept = 0;     ///< files that were there already, byte for byte
    std::uint64_t bytes = 0;    ///< of all files
};

/// "class_003/00000042.jpg": files are numbered from 1 and fill the directories one after another.
std::string file_path(const DatasetPlan& plan, std::uint64_t index);

/// The seed of the bytes of a large file: random_bytes(large_file_seed(plan.seed, name), 0, …). It belongs to
/// the name, so that the number of small files beside it does not change it.
std::uint64_t large_file_seed(std::uint64_t seed, const std::string& name);

/// Bytes of sample `index` (record r of file f is f * records + r). With a standard deviation: close to a
/// normal distribution about `size` (the sum of twelve uniform numbers), cut off at size/16 and at size + 4
/// deviations and to what the kind can have; integers alone decide, so that it is the same on every machine.
std::uint64_t sample_size(const DatasetPlan& plan, std::uint64_t index);

/// Writes what is missing or different. The same plan gives the same bytes everywhere, however many threads
/// there are. Other files in the directory are left alone. With records of files an index of them is written
/// to kRecordIndex, with shards theirs to kShardIndex. EINVAL for a plan that cannot be; ENOSPC says how much
/// more room there has to be.
Result<DatasetOutcome> make_dataset(const DatasetPlan& plan);

}  // namespace tierfs::iobench
