// Samples that smallfiles, epoch and depth read, each a file of its own or a part of a larger file.
#pragma once

#include <cstdint>
#include <deque>
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
};

/// The samples of options.path up to options.samples.max_file bytes, with their hashes where options.manifest
/// is given. Where the dataset has an index of records (kRecordIndex) its entries are the samples, and with
/// options.samples.record_size every file's consecutive pieces of that size; otherwise the files, without tar
/// shards and indexes. With options.samples.list only the files that it names (sample_list.hpp): the
/// directory is then not listed and has no index. ENOENT when there is none.
Result<SampleSet> find_samples(const RunOptions& options);

/// The same samples where they lie in tar shards, in the order of the index (kShardIndex); none when the
/// dataset has no shards.
Result<std::optional<SampleSet>> find_packed(const RunOptions& options);

/// How many files this process may have open, less 64 for all that are not samples. Raises its limit
/// (RLIMIT_NOFILE) to the hard one, at most to 65536, since the usual soft limit is less than a dataset's
/// files.
std::size_t most_open_files();

/// Reads samples as one process of a data loader does. A whole file is opened, its attributes are asked for,
/// it is read to its end and closed; a part is read by pread(2) from a file that stays open, as long as
/// `most_open` (at least 1) allows: beyond that the one that was opened first is closed. Not thread-safe.
/// `set` has to outlive it.
class SampleReader {
  public:
    /// `largest`: bytes of the largest sample that will be read; memory for it is there when this returns, so
    /// that none is added while time is measured.
    SampleReader(const SampleSet& set, std::uint64_t largest, std::size_t most_open = most_open_files())
        : set_(set), most_open_(most_open), buffer_(largest + 1) {}

    /// The bytes read; EIO when they are not as many as the sample's size or, where it has a hash, not those
    /// bytes.
    Result<std::uint64_t> read(const Sample& sample);

  private:
    Result<std::uint64_t> read_whole(const Sample& sample);
    Result<std::uint64_t> read_part(const Sample& sample);
    Result<std::uint64_t> checked(const Sample& sample, std::uint64_t bytes) const;

    const SampleSet& set_;
    const std::size_t most_open_;
    std::vector<std::byte> buffer_;
    std::unordered_map<std::uint32_t, Fd> open_;
    std::deque<std::uint32_t> opened_;  // the keys of open_, the oldest first
};

/// The numbers of the samples to read: 0 … count-1, or options.samples.files of them drawn at random, the
/// same ones on every call: every epoch, run and warm-up of a measurement reads them.
std::vector<std::uint32_t> chosen(std::size_t count, const RunOptions& options);

/// The chosen ones, shuffled.
std::vector<std::uint32_t> order_of(std::size_t count, const RunOptions& options, std::uint64_t seed);

/// Bytes of a chosen sample. `set` is not empty.
double mean_size(const SampleSet& set, const RunOptions& options);

}  // namespace tierfs::iobench
