// Puts objects that are fetched in the order of a pack together, so that a request brings many of them.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/pack/packed_source.hpp"

namespace tierfs {

/// One run grows at a time. Decides only. Not thread-safe.
class ExtentRuns {
  public:
    /// Bytes that nobody asked for are worth a request less; tables of chunks are such.
    static constexpr std::uint64_t kWidestGap = 128 << 10;

    /// `longest`: bytes of a run; a larger object is one by itself.
    explicit ExtentRuns(std::uint64_t longest) : longest_(longest) {}

    /// Adds an object; returns the run before it if that is not continued.
    [[nodiscard]] std::optional<ExtentRun> add(PackedObject object, DatasetNumber dataset);
    /// What has been put together so far, if anything.
    [[nodiscard]] std::optional<ExtentRun> take();

  private:
    [[nodiscard]] bool continues(const pack::Place& place, DatasetNumber dataset) const;

    const std::uint64_t longest_;
    std::optional<ExtentRun> open_;
};

}  // namespace tierfs
