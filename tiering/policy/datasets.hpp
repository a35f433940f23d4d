// The datasets of a mount: which one an object belongs to, and what is known of each.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/origin/object.hpp"
#include "config/base/striped.hpp"
#include "config/dataset_rules.hpp"
#include "config/settings.hpp"
#include "tiering/policy/dataset_policy.hpp"
#include "tiering/policy/pins.hpp"
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
    StripedCounter read, from_origin;  ///< bytes that applications read
    /// Bytes of files that the fill offered in its last walk, and of those that it fetched so far.
    std::atomic<std::uint64_t> fill_offered{0}, filled{0};
    std::atomic<unsigned> fill_refused{0};  ///< files in a row that no tier had room for
};

/// Thread-safe. An object's dataset is found once, by path, size and age at that time, and noted in it; where
/// rules ask for its use, it is found each time. What `tierfs pin` names is a dataset of its own, whatever
/// the rules say; found again when pins change.
///
/// It has two numbers, of which one is in use. What the tiers hold under the other may have been pinned: that
/// is how they find out what of it still is, after pins or objects changed (Store::begin_pin_round).
class Datasets {
  public:
    /// `pins` may be null, and outlives it.
    explicit Datasets(const Settings& settings, const Pins* pins = nullptr);

    Dataset& of(const ObjectRef& object);
    /// An object is read from its beginning.
    void began(const ObjectRef& object) {
        if (counts_) counts_->began(object.content, ReadCounts::Clock::now());
    }
    [[nodiscard]] std::size_t count() const { return datasets_.size(); }
    [[nodiscard]] Dataset& at(std::size_t number) const { return *datasets_[number]; }
    [[nodiscard]] Dataset& pinned() const { return *pinned_[turn_.load(std::memory_order_acquire) % 2]; }
    [[nodiscard]] Dataset& pinned_before() const {
        return *pinned_[(turn_.load(std::memory_order_acquire) + 1) % 2];
    }
    [[nodiscard]] bool is_pinned_by_path(const Dataset& dataset) const {
        return dataset.number >= datasets_.size();
    }
    /// The other number is in use from now on.
    void turn_pinned() { turn_.fetch_add(1, std::memory_order_acq_rel); }
    /// What its rule says of an object, also of one that `tierfs pin` names.
    [[nodiscard]] Codec codec_of(const ObjectRef& object);
    [[nodiscard]] Codec codec_of(const Dataset& dataset) const {
        return is_pinned_by_path(dataset) ? default_codec_ : rule_codec(dataset.number);
    }
    /// Whose patterns are these; null: no rule has it.
    Dataset* find(std::string_view match);
    [[nodiscard]] const std::string& match_of(const Dataset& dataset) const {
        return rules_.at(dataset.number).match;
    }

  private:
    std::size_t choose(const ObjectRef& object) const;
    /// Of the answers of `pins_`; 0: there never was a pin.
    [[nodiscard]] std::uint32_t generation() const {
        const std::uint32_t pins = pins_ == nullptr ? 0 : pins_->generation();
        return pins == 0 ? 0 : pins + turn_.load(std::memory_order_acquire);
    }
    [[nodiscard]] Dataset& numbered(std::size_t number) const {
        return number < datasets_.size() ? *datasets_[number] : *pinned_[number - datasets_.size()];
    }

    [[nodiscard]] Codec rule_codec(std::size_t number) const {
        return rules_.at(number).codec.value_or(default_codec_);
    }

    const DatasetRules rules_;
    const Codec default_codec_;
    const Pins* const pins_;
    std::atomic<std::uint32_t> turn_{0};
    std::unique_ptr<ReadCounts> counts_;  ///< null: no rule asks for it
    std::vector<std::unique_ptr<Dataset>> datasets_;
    std::array<std::unique_ptr<Dataset>, 2> pinned_;
};

}  // namespace tierfs
