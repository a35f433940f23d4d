// The dataset of a file, by rules: the settings' list `datasets`, first match wins. The store
// (tiering/store/store_policy.cpp) keeps a policy for each.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/codec.hpp"
#include "config/base/glob.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// How a dataset is read, and so what the tiers keep of it (tiering/policy/dataset_policy.hpp). pin: all of
/// it, always; none: nothing.
enum class DatasetClass { automatic, epoch, hot, stream, once, pin, none };

/// As it is written in settings and in status: "auto", "epoch", ...
std::string name_of(DatasetClass dataset_class);
std::optional<DatasetClass> parse_dataset_class(std::string_view name);

/// "size >= 1M": one comparison of a rule. Plain value; bytes, milliseconds or a count.
struct RuleCondition {
    enum class Subject : std::uint8_t { size, mtime_age, idle, reads };
    enum class Comparison : std::uint8_t { less, at_most, equal, at_least, more };
    Subject subject = Subject::size;
    Comparison comparison = Comparison::at_least;
    std::uint64_t value = 0;

    [[nodiscard]] bool holds(std::uint64_t found) const;
    /// As it is written: "size >= 1M".
    [[nodiscard]] std::string text() const;
};

/// What is known of a file when it is matched. What is not known lets no condition on it hold.
struct FileFacts {
    std::optional<std::uint64_t> size;              ///< bytes
    std::optional<std::chrono::milliseconds> age;   ///< since its mtime
    std::optional<std::chrono::milliseconds> idle;  ///< since it was last read here
    std::optional<std::uint64_t> reads;             ///< here, since the mount started
};

/// One entry of `datasets`. Plain value.
struct DatasetRule {
    std::string match = "/**";
    Glob glob = *Glob::compile("/**");
    DatasetClass dataset_class = DatasetClass::automatic;
    std::vector<RuleCondition> conditions;  ///< all of them must hold
    std::optional<Codec> codec;             ///< nothing: nvme.codec
    bool immutable = false;                 ///< names, attributes and bytes of it never change
    std::string place;                      ///< "FILE:LINE"; empty: the implicit last rule

    /// Sets one key. The problem is "KEY: found 'X'; allowed: ..." or nothing.
    std::optional<std::string> set(std::string_view key, std::string_view text);
    [[nodiscard]] bool holds(std::string_view path, const FileFacts& facts) const;
    /// Holds conditions that change while nobody changes the file: idle, reads.
    [[nodiscard]] bool depends_on_use() const;
    /// "size >= 1M, size < 1G"; empty without conditions.
    [[nodiscard]] std::string conditions_text() const;
};

/// All rules, the implicit last one (`/**` with the mount's class) included. Immutable, thread-safe.
class DatasetRules {
  public:
    static constexpr std::size_t kMost = 64;  ///< that a file may have

    DatasetRules(std::vector<DatasetRule> rules, DatasetClass last);

    [[nodiscard]] std::size_t count() const { return rules_.size(); }
    [[nodiscard]] const DatasetRule& at(std::size_t number) const { return rules_[number]; }
    /// Number of the first rule that holds; the last one always does.
    [[nodiscard]] std::size_t find(std::string_view path, const FileFacts& facts) const;
    /// Numbers of the rules that `path` may fall under, by size, age and use: the last of them is the one
    /// if the conditions of none before it hold.
    [[nodiscard]] std::vector<std::size_t> candidates(std::string_view path) const;
    [[nodiscard]] bool depends_on_use() const { return depends_on_use_; }

    [[nodiscard]] bool has_immutable() const { return has_immutable_; }
    /// Whether the rule of a file says `immutable`.
    [[nodiscard]] bool is_immutable(std::string_view path, const FileFacts& facts) const {
        return has_immutable_ && rules_[find(path, facts)].immutable;
    }
    /// Whether all names in a directory stay as they are: by the first rule whose pattern ends in `/**`,
    /// takes in all that is in there and has no conditions.
    [[nodiscard]] bool is_immutable_inside(std::string_view directory) const;

  private:
    std::vector<DatasetRule> rules_;
    bool depends_on_use_ = false, has_immutable_ = false;
};

/// A dataset's number among the mount's rules.
using DatasetNumber = std::uint8_t;
/// The rules', what no rule is for, and two for what `tierfs pin` names (tiering/policy/datasets.hpp).
inline constexpr std::size_t kMostDatasets = DatasetRules::kMost + 3;
/// Of what an earlier run left, until somebody reads it.
inline constexpr DatasetNumber kUnknownDataset = 255;

}  // namespace tierfs
