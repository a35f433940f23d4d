// The one place that meets CLI11's exceptions. Internal to fs/commands.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace tierfs {

/// Parses; the exit status if the command ends here (0 after --help, 2 after wrong usage).
inline std::optional<int> parse_arguments(CLI::App& app, std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end
    try {
        app.parse(std::move(arguments));
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
}

}  // namespace tierfs
