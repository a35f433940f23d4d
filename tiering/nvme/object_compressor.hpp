// The form in which a small object is stored. Internal to tiering/nvme; for the writer thread alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "backends/extent/codec.hpp"
#include "config/base/aligned_buffer.hpp"
#include "tiering/policy/tier_shares.hpp"

namespace tierfs {

/// Compresses objects, and finds out which datasets are worth it: where kFailures objects in a row did not
/// get small enough (longest_kept), one of kEvery is tried from then on, until one does. A dataset of JPEG
/// files so costs a sixteenth of the work; one of which every eighth object compresses is mistaken for it
/// once in 8.5 runs of 16, and looked at again 16 objects later.
///
/// Memory, from the first object on: 0.6 MiB of the library, and the largest object once (twice if it comes
/// in several pieces).
class ObjectCompressor {
  public:
    static constexpr unsigned kFailures = 16, kEvery = 16;

    /// The compressed form, valid until the next call; nothing: it is to be stored as it is. `pieces`: the
    /// object's bytes in order.
    std::optional<std::span<const std::byte>> compress(DatasetNumber dataset, Codec codec,
                                                       std::span<const std::span<const std::byte>> pieces);

  private:
    struct Trials {
        unsigned failed = 0;    ///< in a row
        unsigned left_out = 0;  ///< since the last one
    };
    std::span<const std::byte> gather(std::span<const std::span<const std::byte>> pieces, std::size_t size);

    Compressor compressor_;
    AlignedBuffer whole_, stored_;
    std::array<Trials, kMostDatasets + 1> trials_{};  ///< the last: of what belongs to no dataset
};

}  // namespace tierfs
