// What smallfiles, epoch and depth read: samples, each a file of its own or a part of a larger file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/iobench/data/files.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

struct Sample {
    std::uint32_t file = 0;    ///< of SampleSet::files
    bool whole = true;         ///< the sample is the file
    std::uint64_t offset = 0;  ///< bytes
    std::uint64_t size = 0;    ///< bytes
    std::string hash;          ///< XXH3-128 that the content has to have; empty: not checked
};

struct SampleSet {
    std::vector<std::string> files;  ///< ready to open
    std::vector<Sample> samples;     ///< in the order of the dataset

    [[nodiscard]] std::uint64_t bytes() const;
};

/// The samples of options.path up to options.samples.max_file bytes, with their hashes where options.manifest
/// is given. Where the dataset has an index of records (kRecordIndex) its entries are the samples, and with
/// options.samples.record_size every file's consecutive pieces of that size; otherwise the files, without tar
/// shards and indexes. With options.samples.list only the files that it names, and no directory is listed:
/// paths relative to options.path, one a line, each at most once; EINVAL for one that leads elsewhere. ENOENT
/// when there is none.
Result<SampleSet> find_samples(const RunOptions& options);

/// The same samples where they lie in tar shards, in the order of the index (kShardIndex); none when the
/// dataset has no shards.
Result<std::optional<SampleSet>> find_packed(const RunOptions& options);

/// Reads samples as one process of a data loader does. A whole file is opened, its attributes are asked for,
/// it is read to its end and closed; a part is read by pread(2) from a file that stays open (of the last 512
/// used, at least). Not thread-safe. `set` has to outlive it.
class SampleReader {
  public:
    explicit SampleReader(const SampleSet& set) : set_(set) {}

    /// The bytes read; EIO when they are not as many as the sample's size or, where it has a hash, not those
    /// bytes.
    Result<std::uint64_t> read(const Sample& sample);

  private:
    Result<std::uint64_t> read_whole(const Sample& sample);
    Result<std::uint64_t> read_part(const Sample& sample);
    Result<std::uint64_t> checked(const Sample& sample, std::uint64_t bytes) const;

    const SampleSet& set_;
    std::vector<std::byte> buffer_;
    std::unordered_map<std::uint32_t, Fd> open_;
};

/// Numbers 0 … count-1, shuffled, cut to options.samples.files.
std::vector<std::uint32_t> order_of(std::size_t count, const RunOptions& options, std::uint64_t seed);

}  // namespace tierfs::iobench
