// floor: config
// A rule of `datasets`, and which paths it is for. Input, a line each: the pattern, a condition ("size >=
// 1M"), the path.
#include <vector>

#include "config/dataset_rules.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

std::vector<std::string_view> split(std::string_view text) {
    std::vector<std::string_view> names;
    for (;;) {
        const auto slash = text.find('/');
        names.push_back(text.substr(0, slash));
        if (slash == std::string_view::npos) return names;
        text.remove_prefix(slash + 1);
    }
}

/// Another way to match: a table over all pairs of positions. `same(i, j)` for what stands for one thing,
/// `any(i)` for what stands for any number of them.
template <typename Same, typename Any>
bool table_match(std::size_t patterns, std::size_t texts, const Same& same, const Any& any) {
    std::vector<std::vector<char>> reached(patterns + 1, std::vector<char>(texts + 1, 0));
    reached[0][0] = 1;
    for (std::size_t i = 0; i < patterns; ++i) {
        for (std::size_t j = 0; j <= texts; ++j) {
            if (reached[i][j] == 0) continue;
            if (any(i)) {
                for (std::size_t k = j; k <= texts; ++k) reached[i + 1][k] = 1;
            } else if (j < texts && same(i, j)) {
                reached[i + 1][j + 1] = 1;
            }
        }
    }
    return reached[patterns][texts] != 0;
}

bool is_plain(std::string_view text) {
    for (const char byte : text) {
        if (static_cast<unsigned char>(byte) >= 0x80 || byte == '[' || byte == '\\') return false;
    }
    return true;
}

bool name_matches(std::string_view pattern, std::string_view name) {
    if (is_plain(pattern) && is_plain(name)) {
        return table_match(
            pattern.size(), name.size(),
            [&](std::size_t i, std::size_t j) { return pattern[i] == '?' || pattern[i] == name[j]; },
            [&](std::size_t i) { return pattern[i] == '*'; });
    }
    const auto glob = tierfs::Glob::compile("/" + std::string(pattern));
    return glob && glob->matches("/" + std::string(name));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    if (size > 3000) return 0;
    auto text = fuzz::text_of(data, size);
    const auto pattern = fuzz::take_line(text);
    const auto condition = fuzz::take_line(text);
    const auto path = text;

    DatasetRule rule;
    const auto space = condition.find(' ');
    if (space != std::string_view::npos && condition.substr(0, space) != "match" &&
        condition.substr(0, space) != "class" &&
        !rule.set(condition.substr(0, space), condition.substr(space + 1))) {
        fuzz::require(!rule.conditions.empty(), "a condition that is taken is there");
        DatasetRule again;
        for (const auto& each : rule.conditions) {
            const auto printed = each.text();
            const auto end = printed.find(' ');
            fuzz::require(!again.set(printed.substr(0, end), printed.substr(end + 1)), "and parses back");
        }
        fuzz::require(again.conditions_text() == rule.conditions_text(), "to the same");
    }

    const auto problem = rule.set("match", pattern);
    if (problem) {
        fuzz::require(problem->size() < 1024, "a refusal is short");
        return 0;
    }
    auto patterns = split(pattern.starts_with('/') ? pattern.substr(1) : pattern);
    const auto names = split(path.starts_with('/') ? path.substr(1) : path);
    // At the end ** stands for one name at least.
    const bool inside = patterns.back() == "**";
    const std::size_t one_name = inside ? patterns.size() - 1 : patterns.size();
    if (inside) patterns.emplace_back("**");
    const bool expected = table_match(
        patterns.size(), names.size(),
        [&](std::size_t i, std::size_t j) { return i == one_name || name_matches(patterns[i], names[j]); },
        [&](std::size_t i) { return i != one_name && patterns[i] == "**"; });
    fuzz::require(rule.glob.matches(path) == expected, "two ways to match agree");
    return 0;
}
