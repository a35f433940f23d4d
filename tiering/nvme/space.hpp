// Keeps the tier under its limit. Internal to tiering/nvme; for the writer thread alone.
#pragma once

#include <cerrno>
#include <cstdint>
#include <functional>
#include <optional>

#include "tiering/nvme/nvme_core.hpp"

namespace tierfs {

/// The code of "full, and what is here stays": no fault of the device. No file system returns it.
inline constexpr int kTierFull = EXFULL;

class SpaceKeeper {
  public:
    explicit SpaceKeeper(NvmeCore& core) : core_(core) {}

    /// Is called before an extent goes, as long as it serves, and may copy some of it elsewhere: into room
    /// that is free. Not before one that goes since the device failed to take a write.
    using Save = std::function<void(const Catalog::Chosen&)>;
    void on_eviction(Save save) { save_ = std::move(save); }

    struct Room {
        std::uint64_t bytes = 0;
        std::optional<Unit> keep = std::nullopt;  ///< is not evicted
        /// To be left free besides, where that can be had.
        std::uint64_t spare = 0;
    };
    /// Evicts what may go for this dataset until so many bytes more fit under the limit, and leave
    /// NvmeOptions::keep_free of the file system free; where that is 0, 2 % or 64 MiB (the smaller) if that
    /// can be had. Errors: ENOSPC, there is not enough to evict; kTierFull; those of unlinking.
    Result<void> make_room(const Room& room, DatasetNumber dataset);

    /// Whether so many bytes more can be had without evicting anything.
    [[nodiscard]] bool has_room(std::uint64_t bytes) const;

    /// False: nothing can be evicted, or its file cannot be unlinked. Then the next one could not either,
    /// most likely: whoever wants more room must stop here, or all is forgotten and nothing is freed.
    /// Since the device is smaller than it was: of whatever dataset, also of what is kept. Saves nothing.
    bool evict_one(const std::optional<Unit>& keep = std::nullopt);
    /// The same until the limit, which was lowered, holds; what is hot is saved.
    void meet_limit();

    /// Takes this unit out: its L records, then its file.
    void drop(const Unit& unit);

  private:
    /// Who room is made for; nothing: somebody has to go.
    struct Taker {
        DatasetNumber dataset = 0;
        std::uint64_t bytes = 0;
    };
    Result<void> evict_next(const std::optional<Unit>& keep, const std::optional<Taker>& taker, bool save);
    Result<void> evict(Victim victim);
    void erase_entries(const Victim& victim);
    void forget_entry(const Victim& victim, const ChunkEntry& entry);

    NvmeCore& core_;
    Save save_;
};

}  // namespace tierfs
