// Keeps the tier under its limit. Internal to tiering/nvme; for the writer thread alone.
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>

#include "tiering/nvme/nvme_core.hpp"

namespace tierfs {

/// The code of "full, and what is here stays": no fault of the device. No file system returns it.
inline constexpr int kTierFull = EXFULL;

class SpaceKeeper {
  public:
    explicit SpaceKeeper(NvmeCore& core) : core_(core) {}

    /// Evicts what may go for this dataset until `bytes` more fit under the limit, and leave 2 % or 64 MiB of
    /// the file system (the smaller) free where that can be had. `keep` is not evicted. Errors: ENOSPC, there
    /// is not enough to evict; kTierFull; those of unlinking.
    Result<void> make_room(std::uint64_t bytes, DatasetNumber dataset,
                           const std::optional<Unit>& keep = std::nullopt);

    /// False: nothing can be evicted, or its file cannot be unlinked. Then the next one could not either,
    /// most likely: whoever wants more room must stop here, or all is forgotten and nothing is freed.
    /// Since limit or device are smaller than they were: of whatever dataset, also of what is kept.
    bool evict_one(const std::optional<Unit>& keep = std::nullopt);

    /// Takes this unit out: its L records, then its file.
    void drop(const Unit& unit);

  private:
    /// Who room is made for; nothing: somebody has to go.
    struct Taker {
        DatasetNumber dataset = 0;
        std::uint64_t bytes = 0;
    };
    Result<void> try_evict(const std::optional<Unit>& keep, const std::optional<Taker>& taker);
    Result<void> evict(Victim victim);
    void erase_entries(const Victim& victim);

    NvmeCore& core_;
};

}  // namespace tierfs
