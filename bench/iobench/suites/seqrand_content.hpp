// Expected bytes of a file, block by block: how the suite seqrand checks reads in any order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/iobench/data/manifest.hpp"
#include "bench/iobench/suites/seqrand_blocks.hpp"

namespace tierfs::iobench {

/// Hashes (XXH3-64) of a file's parts of `unit` bytes, known to be right because all of them together have
/// the hash that the manifest names for the file. 8 bytes of memory for each unit. Reading it is thread-safe.
class Content {
  public:
    /// Makes the bytes again as `iobench gen --seed S --large NAME:SIZE` does, without reading anything; when
    /// these are not the manifest's, takes them from the file itself, which is then read once. EIO when that
    /// is not what the manifest says either.
    static Result<Content> of(const ReadFile& file, const ManifestEntry& entry, std::uint64_t unit,
                              std::uint64_t gen_seed);

    /// Checks the bytes that were read at `offset`, a multiple of the unit; the bytes end at a multiple of it
    /// or with the file. EIO with file and place of the first unit that is wrong.
    [[nodiscard]] Result<void> check(const ReadFile& file, std::uint64_t offset,
                                     std::span<const std::byte> bytes) const;

    /// Whether the file had to be read for this.
    [[nodiscard]] bool was_read() const { return was_read_; }

  private:
    explicit Content(std::uint64_t unit) : unit_(unit) {}
    void add(std::span<const std::byte> bytes);

    std::uint64_t unit_;
    std::vector<std::uint64_t> hashes_;
    bool was_read_ = false;
};

}  // namespace tierfs::iobench
