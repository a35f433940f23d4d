// The index of samples of a dataset that are not files of their own: members of tar shards, records of
// record files.
//
// Text, one line a sample behind a first line that names the format: XXH3-128 of the sample's bytes (32
// hexadecimal digits, canonical byte order), size and offset of these bytes in the file that holds them, the
// path of that file, the name of the sample, divided by tabs; in the order of the dataset. Paths are relative
// to the dataset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs::iobench {

/// Where in a dataset its indexes are.
inline constexpr std::string_view kShardIndex = "shards/index.tsv", kRecordIndex = "records.tsv";

struct IndexEntry {
    std::string sample;  ///< of a shard: the path of the file with the same bytes
    std::string file;
    std::uint64_t offset = 0, size = 0;
    std::string hash;

    bool operator==(const IndexEntry&) const = default;
};

using Index = std::vector<IndexEntry>;

/// The whole text.
std::string index_text(const Index& entries);

/// EINVAL with `name` and the line for what is no index; files outside the dataset are refused.
Result<Index> parse_index(const std::string& text, const std::string& name);

/// None when `directory` has no such index. With a `hash` the file's content has to have it.
Result<std::optional<Index>> read_index(const std::string& directory, std::string_view which,
                                        const std::optional<std::string>& hash);

}  // namespace tierfs::iobench
