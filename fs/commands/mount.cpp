#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "config/base/log_lines.hpp"
#include "config/settings.hpp"
#include "fs/cli/environment.hpp"
#include "fs/cli/say.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/parse.hpp"
#include "fs/daemon/launch.hpp"

namespace tierfs {

namespace {

bool has(const std::vector<std::string>& options, const std::string& wanted) {
    return std::find(options.begin(), options.end(), wanted) != options.end();
}

bool asks_for_writing(const std::string& option) {
    return option == "writable" || (option.starts_with("writable=") && option != "writable=false");
}

/// Tells of options that do not make a mount fail, and do not come true either.
void tell_differences(const Settings& settings, const std::vector<std::string>& asked, bool by_mount) {
    const auto tell = [&settings](const std::string& what) {
        sayf(stderr, "tierfs: %s: %s\n", log::escaped(settings.mountpoint).c_str(), what.c_str());
    };
    if (settings.read_only && has(asked, "ro") && std::any_of(asked.begin(), asked.end(), asks_for_writing)) {
        tell("read-only, since ro is said beside writable");
    } else if (by_mount && settings.read_only && has(asked, "rw")) {
        tell(
            "read-only: mount(8) says rw even where nobody asks for it. `writable` makes it writable, `ro` says "
            "that read-only is meant");
    }
    for (const std::string option : {"suid", "dev"}) {
        if (has(asked, option) && !settings.allow_suid)
            tell("no" + option + ": " + option + " is honoured beside allow_suid alone");
    }
}

std::vector<std::string> joined(const std::vector<std::string>& option_lists) {
    std::vector<std::string> all;
    for (const auto& list : option_lists) {
        const auto options = split_options(list);
        all.insert(all.end(), options.begin(), options.end());
    }
    return all;
}

int mount_with(SettingsSources sources, const std::vector<std::string>& asked, bool by_mount) {
    sources.environment = process_environment();
    std::error_code ignored;
    for (auto& option : sources.options) {  // read once more by `tierfs reload`, from another directory
        if (option.starts_with("config=") && option.size() > 7)
            option = "config=" + std::filesystem::absolute(option.substr(7), ignored).string();
    }
    sources.mountpoint = std::filesystem::absolute(sources.mountpoint, ignored).string();
    auto settings = load_settings(sources);
    if (!settings) return settings_refused(settings.error());
    tell_differences(*settings, asked, by_mount);
    return launch_mount(std::move(*settings), std::move(sources));
}

}  // namespace

int mount_command(const std::vector<std::string>& arguments) {
    SettingsSources sources;
    std::vector<std::string> options;
    CLI::App app("Mounts SOURCE on MOUNTPOINT", "tierfs");
    app.add_option("SOURCE", sources.source, "what to mount")->required();
    app.add_option("MOUNTPOINT", sources.mountpoint, "where")->required();
    app.add_option("-o", options, "settings, KEY=VALUE,...")->allow_extra_args(false);
    app.add_flag("-f", sources.foreground, "stay in the foreground");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;
    sources.options = joined(options);
    const auto asked = sources.options;
    return mount_with(std::move(sources), asked, false);
}

int mount_helper(const std::vector<std::string>& arguments) {
    SettingsSources sources;
    std::vector<std::string> options;
    std::string unused, name_space;
    bool fake = false;
    bool flag = false;
    CLI::App app("Mounts SOURCE on MOUNTPOINT for mount(8)", "mount.tierfs");
    app.add_option("SOURCE", sources.source, "what to mount")->required();
    app.add_option("MOUNTPOINT", sources.mountpoint, "where")->required();
    app.add_option("-o", options, "settings, KEY=VALUE,...")->allow_extra_args(false);
    app.add_flag("-f", fake, "do everything but mount");
    app.add_flag("-s", flag, "accepted");
    app.add_flag("-n", flag, "accepted");
    app.add_flag("-v", flag, "accepted");
    app.add_option("-N", name_space, "refused");
    app.add_option("-t", unused, "accepted");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;
    if (!name_space.empty())
        return command_failed(
            "`mount -N` is not possible: run mount in that name space, by `nsenter --mount=" + name_space +
            " mount ...`");
    if (fake) return 0;
    const auto asked = joined(options);
    if (has(asked, "remount")) return remount_command(sources.mountpoint, asked);
    // mount(8) says rw where nobody said anything: to the helper it is no demand. Its ro is one, and it says
    // that before all that it does not know itself.
    sources.options = asked;
    std::erase(sources.options, "rw");
    if (has(asked, "ro")) std::erase_if(sources.options, asks_for_writing);
    return mount_with(std::move(sources), asked, true);
}

}  // namespace tierfs
