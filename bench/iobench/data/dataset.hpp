// Makes datasets: many files of one kind and size in class directories, and large files beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/iobench/data/manifest.hpp"
#include "bench/iobench/data/payload.hpp"

namespace tierfs::iobench {

struct LargeFile {
    std::string name;  ///< relative to the dataset, without "..", tab or newline
    std::uint64_t size = 0;
};

/// What to make. A plain value.
struct DatasetPlan {
    std::string directory;
    Kind kind = Kind::jpeg;
    std::uint64_t files = 0;
    std::uint64_t size = 0;         ///< bytes of each of `files`
    std::uint64_t directories = 0;  ///< 0: one for each 1000 files begun
    std::uint64_t seed = 1;
    std::vector<LargeFile> large;  ///< of random bytes, whatever `kind` is
    unsigned threads = 0;          ///< 0: one a processor
};

struct DatasetOutcome {
    Manifest manifest;
    std::uint64_t written = 0;  ///< files
    std::uint64_t kept = 0;     ///< files that were there already, byte for byte
    std::uint64_t bytes = 0;    ///< of all files
};

/// "class_003/00000042.jpg": files are numbered from 1 and fill the directories one after another.
std::string file_path(const DatasetPlan& plan, std::uint64_t index);

/// The seed of the bytes of a large file: random_bytes(large_file_seed(plan.seed, name), 0, …). It belongs to
/// the name, so that the number of small files beside it does not change it.
std::uint64_t large_file_seed(std::uint64_t seed, const std::string& name);

/// Writes what is missing or different. The same plan gives the same bytes everywhere, however many threads
/// there are. Other files in the directory are left alone.
Result<DatasetOutcome> make_dataset(const DatasetPlan& plan);

}  // namespace tierfs::iobench
