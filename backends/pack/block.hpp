// Blocks of a pack's index: backends/pack/format.hpp, BLOCK. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/pack/format.hpp"

namespace tierfs::pack {

/// The bytes of a block. `entries`: 1 to kBlockEntries, their keys in ascending order; the same ones give the
/// same bytes.
std::string encode_block(std::span<const Entry> entries);

/// The entries, in order; nothing when anything about the bytes is wrong. Keys ascend, names are clean, a
/// place has as many sums as its stored length asks for, and is of a file; extents' numbers are below
/// `extents`.
std::optional<std::vector<Entry>> decode_block(std::string_view bytes, std::size_t extents);

/// About how many bytes an entry takes: of its key and its sums.
std::size_t weight_of(const Entry& entry);

}  // namespace tierfs::pack
