// The files that smallfiles and epoch read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

struct Sample {
    std::string path;  ///< ready to open
    std::uint64_t size = 0;
    std::string hash;  ///< what the content has to have; empty: not checked
};

/// The files of options.path up to options.samples.max_file, sorted; with their hashes where options.manifest
/// is given. With options.samples.list only those that it names, and no directory is listed: paths relative
/// to options.path, one a line, each at most once; EINVAL for one that is absolute or has "..".
Result<std::vector<Sample>> find_samples(const RunOptions& options);

/// Opens, stats, reads to the end, closes: what a data loader does. The bytes read; EIO when they are not as
/// many as the sample's size or, where it has a hash, not those bytes. `buffer` is where they go.
Result<std::uint64_t> read_sample(const Sample& sample, std::vector<std::byte>& buffer);

/// Numbers of `samples`, shuffled, cut to options.samples.files.
std::vector<std::uint32_t> order_of(const std::vector<Sample>& samples, const RunOptions& options,
                                    std::uint64_t seed);

}  // namespace tierfs::iobench
