// The one place that meets CLI11's exceptions. Internal to fs/commands.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fs/commands/commands.hpp"

namespace tierfs {

/// Parses; the exit status if the command ends here (0 after --help, 2 after wrong usage). Of an option that
/// has one value and is given twice the last one counts.
inline std::optional<int> parse_arguments(CLI::App& app, std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end
    for (auto* option : app.get_options()) {
        if (!option->get_positional() && option->get_items_expected_max() == 1) option->take_last();
    }
    try {
        app.parse(std::move(arguments));
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        return wrong_usage(error.what(), app.get_name());
    }
}

}  // namespace tierfs
