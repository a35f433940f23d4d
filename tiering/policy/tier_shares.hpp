// Shares of the datasets of a mount in the room of one tier.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "config/dataset_rules.hpp"

namespace tierfs {

/// What a full tier does with a dataset's data. goes: the least used makes room for more of it. stays: none
/// does. waits: the same, and it takes nothing from others. passes: it takes what is free, and makes room for
/// whoever is entitled to some. pinned: it takes room from all others, and never goes.
enum class Retention : std::uint8_t { goes, stays, waits, passes, pinned };

/// Fair shares that may be borrowed: what is not pinned is divided evenly among the datasets that keep
/// something; who has less than its share may take from who has more, and from what only passes. So the first
/// to freeze has all as long as nobody else wants some, and no two take from each other in turn, since none
/// falls below its share by it.
///
/// Counts and answers only; bytes. Thread-safe, without locks: an answer may be a moment old.
class TierShares {
  public:
    explicit TierShares(std::uint64_t limit) : limit_(limit) {}

    /// The tier became smaller or larger.
    void set_limit(std::uint64_t limit) { limit_ = limit; }

    /// `goes` at first. Also of the unknown: pinned, while it may turn out to be.
    void set(DatasetNumber dataset, Retention retention) {
        at(dataset).retention = retention;
        std::size_t count = count_;
        while (count <= dataset && dataset < kMostDatasets &&
               !count_.compare_exchange_weak(count, std::size_t{dataset} + 1)) {
        }
    }
    [[nodiscard]] Retention get(DatasetNumber dataset) const { return at(dataset).retention; }

    /// Of datasets that `set` has named, or 0, or unknown.
    void add(DatasetNumber dataset, std::uint64_t bytes) { at(dataset).used += bytes; }
    void remove(DatasetNumber dataset, std::uint64_t bytes) { at(dataset).used -= bytes; }
    [[nodiscard]] std::uint64_t used(DatasetNumber dataset) const { return at(dataset).used; }

    /// Notes that it has something to keep, so that others leave it a share.
    void ask(DatasetNumber dataset) {
        if (!at(dataset).asked) at(dataset).asked = true;
    }

    [[nodiscard]] std::uint64_t share(DatasetNumber dataset) const { return share_beside(dataset, dataset); }

    /// Whether anything here never goes.
    [[nodiscard]] bool has_pinned() const;

    /// Whether data of `owner` may go for `bytes` more of `taker`.
    [[nodiscard]] bool may_displace(DatasetNumber taker, DatasetNumber owner, std::uint64_t bytes) const;
    /// Whether there is anybody whose data may go for it; its own apart.
    [[nodiscard]] bool may_displace_any(DatasetNumber taker, std::uint64_t bytes) const;

  private:
    struct Dataset {
        std::atomic<Retention> retention{Retention::goes};
        std::atomic<bool> asked{false};
        std::atomic<std::uint64_t> used{0};
    };

    static std::size_t place(DatasetNumber dataset) {
        return dataset < kMostDatasets ? dataset : kMostDatasets;
    }
    Dataset& at(DatasetNumber dataset) { return datasets_[place(dataset)]; }
    [[nodiscard]] const Dataset& at(DatasetNumber dataset) const { return datasets_[place(dataset)]; }
    /// `also`: counts as one that keeps something.
    [[nodiscard]] std::uint64_t share_beside(DatasetNumber dataset, DatasetNumber also) const;

    std::atomic<std::uint64_t> limit_;
    std::atomic<std::size_t> count_{1};                ///< datasets above it are not used
    std::array<Dataset, kMostDatasets + 1> datasets_;  ///< the last: unknown
};

}  // namespace tierfs
