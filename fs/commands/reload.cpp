#include <cstdio>
#include <nlohmann/json.hpp>

#include "config/base/log_lines.hpp"
#include "fs/cli/say.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/parse.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

namespace {

// The supervisor answers in any case; longer than all of its deadlines together.
constexpr auto kReloadPatience = std::chrono::hours(2);

void print(const std::string& mountpoint, const nlohmann::json& result) {
    sayf(stdout, "%s: tierfs %s serves it, pid %ld; readers waited for %.2f s\n",
         log::escaped(mountpoint).c_str(), result.value("version", std::string("?")).c_str(),
         result.value("pid", 0L), result.value("pause_s", 0.0));
}

}  // namespace

int reload_command(const std::vector<std::string>& arguments) {
    std::string mountpoint;
    bool json = false;
    CLI::App app("Has the program on disk, with the configuration as it is now, serve a mount that goes on",
                 "tierfs reload");
    app.add_option("MOUNTPOINT", mountpoint, "a tierfs mount")->required();
    app.add_flag("--json", json, "print JSON");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    const auto mount = find_tierfs_mount(mountpoint);
    if (!mount) return command_failed(mount.error().message);
    const auto address = control_of(*mount);
    if (!address) return command_failed(address.error().message);
    const auto done = ask_control(*address, "reload", kReloadPatience);
    if (!done) return command_failed(unanswered(*mount, done.error().within(mountpoint)).message);
    if (json) {
        say_json(stdout, done->dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return 0;
    }
    try {
        print(mountpoint, *done);
    } catch (const nlohmann::json::exception&) {
        return command_failed(mountpoint + ": the answer of the mount is not understood: use --json");
    }
    return 0;
}

}  // namespace tierfs
