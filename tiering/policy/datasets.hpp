// The datasets of a mount: which one an object belongs to, and what is known of each.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/dataset_rules.hpp"
#include "config/settings.hpp"
#include "tiering/object.hpp"
#include "tiering/policy/dataset_policy.hpp"
#include "tiering/policy/read_counts.hpp"
#include "tiering/policy/tier_shares.hpp"

namespace tierfs {

/// What the objects of one rule have in common. Thread-safe.
struct Dataset {
    Dataset(DatasetNumber own_number, DatasetClass configured) : number(own_number), policy(configured) {}

    /// What a tier does with what it holds of it.
    [[nodiscard]] Retention retention() const;
    /// Not written to NVMe: set so, not only recognised.
    [[nodiscard]] bool is_passing() const;

    const DatasetNumber number;
    DatasetPolicy policy;
    std::atomic<bool> frozen{false};   ///< of the last fetch in an epoch, no tier had room for it
    std::atomic<bool> refused{false};  ///< pinned, and the tiers are full of what is pinned
    std::atomic<std::uint64_t> read{0}, from_origin{0};  ///< bytes that applications read
};

/// Thread-safe. An object's dataset is found once, by path, size and age at that time, and noted in it; where
/// rules ask for its use, it is found each time.
class Datasets {
  public:
    explicit Datasets(const Settings& settings);

    Dataset& of(const ObjectRef& object);
    /// An object is read from its beginning.
    void began(const ObjectRef& object) {
        if (counts_) counts_->began(object.content, ReadCounts::Clock::now());
    }
    [[nodiscard]] std::size_t count() const { return datasets_.size(); }
    [[nodiscard]] Dataset& at(std::size_t number) const { return *datasets_[number]; }
    /// Whose patterns are these; null: no rule has it.
    Dataset* find(std::string_view match);
    [[nodiscard]] const std::string& match_of(const Dataset& dataset) const {
        return rules_.at(dataset.number).match;
    }

  private:
    std::size_t choose(const ObjectRef& object) const;

    const DatasetRules rules_;
    std::unique_ptr<ReadCounts> counts_;  ///< null: no rule asks for it
    std::vector<std::unique_ptr<Dataset>> datasets_;
};

}  // namespace tierfs
