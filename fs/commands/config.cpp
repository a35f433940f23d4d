#include <cstdio>

#include "config/settings.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/parse.hpp"

namespace tierfs {

int config_command(const std::vector<std::string>& arguments) {
    bool defaults = false;
    std::string file;
    CLI::App app("Shows all settings at their defaults, as a file to start from, or checks such a file",
                 "tierfs config");
    auto* defaults_flag = app.add_flag("--defaults", defaults, "print a commented file with the defaults");
    app.add_option("--check", file, "check a file")->excludes(defaults_flag);
    if (const auto ended = parse_arguments(app, arguments)) return *ended;
    if (file.empty()) {
        std::fputs(settings_defaults_yaml().c_str(), stdout);
        return 0;
    }
    if (const auto checked = check_settings_file(file); !checked)
        return command_failed(checked.error().message);
    std::printf("%s: ok\n", file.c_str());
    return 0;
}

}  // namespace tierfs
