#include <cstdio>

#include "config/settings.hpp"
#include "fs/cli/say.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/parse.hpp"

namespace tierfs {

namespace {

std::string rule_text(const DatasetRules& rules, std::size_t number, Codec default_codec) {
    const DatasetRule& rule = rules.at(number);
    const std::string own = rule.place.empty() ? std::string("no rule of the file") : "rule " + rule.place;
    return own + ", match " + rule.match + ", class " + name_of(rule.dataset_class) + ", codec " +
           std::string(name_of(rule.codec.value_or(default_codec)));
}

/// Sizes, ages and reads are not known here: rules that stand on them are told with what they ask for.
void print_rules_of(const DatasetRules& rules, const std::string& path, Codec default_codec) {
    sayf(stdout, "%s:", path.c_str());
    const auto candidates = rules.candidates(path);
    for (const std::size_t number : candidates) {
        const auto conditions = rules.at(number).conditions_text();
        sayf(stdout, "%s %s%s%s\n", number == candidates.front() ? "" : "  else",
             rule_text(rules, number, default_codec).c_str(), conditions.empty() ? "" : ", if ",
             conditions.c_str());
    }
}

}  // namespace

int config_command(const std::vector<std::string>& arguments) {
    bool defaults = false;
    std::string file;
    std::vector<std::string> paths;
    CLI::App app("Shows all settings at their defaults, as a file to start from, or checks such a file",
                 "tierfs config");
    auto* defaults_flag = app.add_flag("--defaults", defaults, "print a commented file with the defaults");
    auto* check = app.add_option("--check", file, "check a file")->excludes(defaults_flag);
    app.add_option("PATH", paths, "say which rule of datasets these paths of the mount fall under")
        ->needs(check);
    if (const auto ended = parse_arguments(app, arguments)) return *ended;
    if (file.empty()) {
        say(stdout, settings_defaults_yaml());
        return 0;
    }
    const auto checked = check_settings_file(file);
    if (!checked) {
        settings_refused(checked.error());
        return 1;
    }
    if (paths.empty()) sayf(stdout, "%s: ok\n", file.c_str());
    const DatasetRules rules(checked->datasets, checked->dataset_class);
    for (const auto& path : paths) print_rules_of(rules, path, checked->nvme_codec);
    return 0;
}

}  // namespace tierfs
