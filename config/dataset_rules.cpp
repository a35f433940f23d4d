#include "config/dataset_rules.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "config/base/units.hpp"
#include "config/settings_table.hpp"

namespace tierfs {
namespace {

using Subject = RuleCondition::Subject;
using Comparison = RuleCondition::Comparison;

constexpr std::size_t kMostConditions = 16;

constexpr std::array kClasses{DatasetClass::automatic, DatasetClass::epoch, DatasetClass::hot,
                              DatasetClass::stream,    DatasetClass::once,  DatasetClass::pin,
                              DatasetClass::none};

constexpr std::array<std::pair<std::string_view, Subject>, 4> kSubjects{{{"size", Subject::size},
                                                                         {"mtime_age", Subject::mtime_age},
                                                                         {"idle", Subject::idle},
                                                                         {"reads", Subject::reads}}};

// Longer ones first: ">=" begins with ">".
constexpr std::array<std::pair<std::string_view, Comparison>, 6> kComparisons{{{">=", Comparison::at_least},
                                                                               {"<=", Comparison::at_most},
                                                                               {"==", Comparison::equal},
                                                                               {">", Comparison::more},
                                                                               {"<", Comparison::less},
                                                                               {"=", Comparison::equal}}};

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

std::optional<std::uint64_t> parse_value(Subject subject, std::string_view text) {
    if (subject == Subject::size) {
        const auto size = parse_size(text);
        return size ? std::optional(*size) : std::nullopt;
    }
    if (subject == Subject::reads) {
        std::uint64_t count = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
        return error == std::errc() && end == text.data() + text.size() ? std::optional(count) : std::nullopt;
    }
    const auto time = parse_duration(text);
    return time ? std::optional(static_cast<std::uint64_t>(time->count())) : std::nullopt;
}

std::string value_text(const RuleCondition& condition) {
    if (condition.subject == Subject::size) return format_size_exact(condition.value);
    if (condition.subject == Subject::reads) return std::to_string(condition.value);
    return format_duration(std::chrono::milliseconds(static_cast<std::int64_t>(condition.value)));
}

std::optional<RuleCondition> parse_condition(Subject subject, std::string_view text) {
    const auto found = std::find_if(kComparisons.begin(), kComparisons.end(), [&](const auto& comparison) {
        return text.starts_with(comparison.first);
    });
    if (found == kComparisons.end()) return std::nullopt;
    const auto value = parse_value(subject, trimmed(text.substr(found->first.size())));
    if (!value) return std::nullopt;
    return RuleCondition{subject, found->second, *value};
}

std::string allowed_condition(Subject subject) {
    const char* example = subject == Subject::size    ? "\">= 1M\" or \">= 1M, < 1G\""
                          : subject == Subject::reads ? "\">= 2\""
                                                      : "\"> 24h\"";
    return std::string("<, <=, =, >= or > and a ") +
           (subject == Subject::size    ? "size"
            : subject == Subject::reads ? "number"
                                        : "duration") +
           ", as " + example;
}

std::optional<std::uint64_t> fact(const FileFacts& facts, Subject subject) {
    const auto& time = subject == Subject::idle ? facts.idle : facts.age;
    if (subject == Subject::size) return facts.size;
    if (subject == Subject::reads) return facts.reads;
    if (!time) return std::nullopt;
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, time->count()));
}

}  // namespace

std::string name_of(DatasetClass dataset_class) {
    switch (dataset_class) {
        case DatasetClass::epoch:
            return "epoch";
        case DatasetClass::hot:
            return "hot";
        case DatasetClass::stream:
            return "stream";
        case DatasetClass::once:
            return "once";
        case DatasetClass::pin:
            return "pin";
        case DatasetClass::none:
            return "none";
        case DatasetClass::automatic:
            break;
    }
    return "auto";
}

std::optional<DatasetClass> parse_dataset_class(std::string_view name) {
    for (const auto each : kClasses) {
        if (name_of(each) == name) return each;
    }
    return std::nullopt;
}

bool RuleCondition::holds(std::uint64_t found) const {
    switch (comparison) {
        case Comparison::less:
            return found < value;
        case Comparison::at_most:
            return found <= value;
        case Comparison::equal:
            return found == value;
        case Comparison::at_least:
            return found >= value;
        case Comparison::more:
            break;
    }
    return found > value;
}

std::string RuleCondition::text() const {
    std::string out;
    for (const auto& [name, each] : kSubjects) {
        if (each == subject) out = name;
    }
    for (const auto& [sign, each] : kComparisons) {
        if (each != comparison || sign == "==") continue;
        out += " " + std::string(sign);
    }
    return out + " " + value_text(*this);
}

std::optional<std::string> DatasetRule::set(std::string_view key, std::string_view text) {
    const std::string found = std::string(key) + ": found " + settings::shown(text);
    if (key == "match") {
        auto compiled = Glob::compile(text);
        if (!compiled) return found + ", which " + compiled.error().message;
        match = std::string(text);
        glob = std::move(*compiled);
        return std::nullopt;
    }
    if (key == "class") {
        const auto parsed = parse_dataset_class(text);
        if (!parsed) return found + "; allowed: auto, epoch, hot, stream, once, pin, none";
        dataset_class = *parsed;
        return std::nullopt;
    }
    if (key == "codec") {
        codec = parse_codec(text);
        if (!codec) return found + "; allowed: none, lz4, zstd";
        return std::nullopt;
    }
    if (key == "immutable") {
        if (text != "true" && text != "false") return found + "; allowed: true, false";
        immutable = text == "true";
        return std::nullopt;
    }
    const auto subject =
        std::find_if(kSubjects.begin(), kSubjects.end(), [&](const auto& each) { return each.first == key; });
    if (subject == kSubjects.end()) {
        return settings::shown(key) +
               " is no key of a rule; allowed: match, class, size, mtime_age, idle, reads, codec, immutable";
    }
    for (std::string_view rest = text;;) {
        const auto comma = rest.find(',');
        const auto condition = parse_condition(subject->second, trimmed(rest.substr(0, comma)));
        if (!condition) return found + "; allowed: " + allowed_condition(subject->second);
        if (conditions.size() == kMostConditions) return found + "; allowed: at most 16 conditions";
        conditions.push_back(*condition);
        if (comma == std::string_view::npos) return std::nullopt;
        rest.remove_prefix(comma + 1);
    }
}

bool DatasetRule::holds(std::string_view path, const FileFacts& facts) const {
    return std::all_of(conditions.begin(), conditions.end(),
                       [&](const RuleCondition& condition) {
                           const auto found = fact(facts, condition.subject);
                           return found && condition.holds(*found);
                       }) &&
           glob.matches(path);
}

bool DatasetRule::depends_on_use() const {
    return std::any_of(conditions.begin(), conditions.end(), [](const RuleCondition& condition) {
        return condition.subject == Subject::idle || condition.subject == Subject::reads;
    });
}

std::string DatasetRule::conditions_text() const {
    std::string out;
    for (const RuleCondition& condition : conditions) out += (out.empty() ? "" : ", ") + condition.text();
    return out;
}

DatasetRules::DatasetRules(std::vector<DatasetRule> rules, DatasetClass last) : rules_(std::move(rules)) {
    depends_on_use_ = std::any_of(rules_.begin(), rules_.end(),
                                  [](const DatasetRule& rule) { return rule.depends_on_use(); });
    has_immutable_ =
        std::any_of(rules_.begin(), rules_.end(), [](const DatasetRule& rule) { return rule.immutable; });
    rules_.emplace_back();
    rules_.back().dataset_class = last;
}

std::size_t DatasetRules::find(std::string_view path, const FileFacts& facts) const {
    for (std::size_t number = 0; number + 1 < rules_.size(); ++number) {
        if (rules_[number].holds(path, facts)) return number;
    }
    return rules_.size() - 1;
}

bool DatasetRules::is_immutable_inside(std::string_view directory) const {
    if (!has_immutable_) return false;
    const std::string inside = std::string(directory) + "/?";  // as good as any name: it is what ** takes
    const auto rule = std::find_if(rules_.begin(), rules_.end(), [&](const DatasetRule& each) {
        return each.conditions.empty() && each.match.ends_with("/**") && each.glob.matches(inside);
    });
    return rule != rules_.end() && rule->immutable;
}

std::vector<std::size_t> DatasetRules::candidates(std::string_view path) const {
    std::vector<std::size_t> found;
    for (std::size_t number = 0; number < rules_.size(); ++number) {
        if (!rules_[number].glob.matches(path)) continue;
        found.push_back(number);
        if (rules_[number].conditions.empty()) break;
    }
    return found;
}

}  // namespace tierfs
