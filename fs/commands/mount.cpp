#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "config/settings.hpp"
#include "fs/cli/environment.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/parse.hpp"
#include "fs/daemon/launch.hpp"

namespace tierfs {

namespace {

int mount_with(SettingsSources sources, const std::vector<std::string>& option_lists) {
    for (const auto& list : option_lists) {
        const auto options = split_options(list);
        sources.options.insert(sources.options.end(), options.begin(), options.end());
    }
    sources.environment = process_environment();
    std::error_code ignored;
    for (auto& option : sources.options) {  // read once more by `tierfs reload`, from another directory
        if (option.starts_with("config=") && option.size() > 7)
            option = "config=" + std::filesystem::absolute(option.substr(7), ignored).string();
    }
    sources.mountpoint = std::filesystem::absolute(sources.mountpoint, ignored).string();
    auto settings = load_settings(sources);
    if (!settings) return settings_refused(settings.error());
    return launch_mount(std::move(*settings), std::move(sources));
}

/// An option list without its rw options.
std::string without_rw(const std::string& list) {
    std::string kept;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        if (list.compare(begin, end - begin, "rw") != 0) {
            kept.append(kept.empty() ? "" : ",").append(list, begin, end - begin);
        }
        begin = end + 1;
    }
    return kept;
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
    return mount_with(std::move(sources), options);
}

int mount_helper(const std::vector<std::string>& arguments) {
    SettingsSources sources;
    std::vector<std::string> options;
    std::string unused;
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
    app.add_option("-N", unused, "accepted");
    app.add_option("-t", unused, "accepted");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;
    if (fake) return 0;
    // mount(8) says rw where nobody said anything: to the helper it is no demand.
    for (auto& list : options) list = without_rw(list);
    return mount_with(std::move(sources), options);
}

}  // namespace tierfs
