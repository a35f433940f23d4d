// The packers of a device's datasets. Internal to tiering/nvme; for the writer thread alone.
#pragma once

#include <list>
#include <optional>
#include <span>

#include "tiering/nvme/object_compressor.hpp"
#include "tiering/nvme/packer.hpp"

namespace tierfs {

/// A few at a time, each with a chunk in memory and an extent on the device. When there are too many, those
/// of the dataset that nothing came for the longest are sealed and let go.
class Packers {
  public:
    /// `next_number`: of the tier's next extent.
    Packers(NvmeCore& core, SpaceKeeper& space, std::uint64_t next_number)
        : core_(core), space_(space), next_number_(next_number) {}

    /// Takes a copy of a whole object, as Packer::add; compressed if `codec` makes it small enough.
    void add(DatasetNumber dataset, const ContentId& id, std::span<const std::span<const std::byte>> pieces,
             Codec codec);

    /// The same for objects that lie side by side: Packer::add_packed.
    void add_packed(DatasetNumber dataset, std::span<const std::byte> data,
                    std::span<const ChunkEntry> entries) {
        pair_of(dataset).small.add_packed(data, entries);
    }

    /// Where objects of this dataset may move to from an extent that goes; null: too many datasets are being
    /// written. May be called while any of the packers makes room; valid until the next `add`.
    Packer* for_moved(DatasetNumber dataset);

    [[nodiscard]] bool holds(const ContentId& id) const;
    /// When the first of the chunks under way wants to be written.
    [[nodiscard]] std::optional<Health::Clock::time_point> deadline() const;

    void flush();
    /// What has waited long enough.
    void flush_due();
    /// Seals what is being written of a dataset.
    void let_go(DatasetNumber dataset);
    /// The chunk that this object is in.
    void flush_holding(const ContentId& id);
    void seal();

  private:
    static constexpr std::size_t kMostDatasetsWritten = 4;

    struct Pair {
        Pair(NvmeCore& core, SpaceKeeper& space, std::uint64_t& next_number, DatasetNumber of_dataset)
            : dataset(of_dataset), small(core, space, next_number, of_dataset, false) {}
        DatasetNumber dataset;
        Packer small;
        std::optional<Packer> main;  ///< made when something moves or comes back
    };
    Pair* find(DatasetNumber dataset);
    Pair& pair_of(DatasetNumber dataset);
    Packer& main_of(Pair& pair);
    template <typename Do>
    void for_each(const Do& each);

    NvmeCore& core_;
    SpaceKeeper& space_;
    std::uint64_t next_number_;
    ObjectCompressor compressor_;
    std::list<Pair> pairs_;  ///< the last used first; a list, since one may be added while another works
};

}  // namespace tierfs
