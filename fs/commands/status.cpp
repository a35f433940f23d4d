#include "fs/observe/status.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/parse.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

int status_command(const std::vector<std::string>& arguments) {
    std::string mountpoint;
    bool json = false;
    CLI::App app("Says what a mount does and from where its reads come", "tierfs status");
    app.add_option("MOUNTPOINT", mountpoint, "a tierfs mount")->required();
    app.add_flag("--json", json, "print JSON");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    const auto mount = find_tierfs_mount(mountpoint);
    if (!mount) return command_failed(mount.error().message);
    const auto address = control_of(*mount);
    if (!address) return command_failed(address.error().message);
    const auto status = ask_control(*address, "status", std::chrono::seconds(10));
    if (!status) return command_failed(mountpoint + ": " + status.error().message);
    if (json) {
        std::printf("%s\n", status->dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
        return 0;
    }
    try {
        std::fputs(status_text(*status).c_str(), stdout);
    } catch (const nlohmann::json::exception&) {
        return command_failed(mountpoint + ": the status of the mount is not understood: use --json");
    }
    return 0;
}

}  // namespace tierfs
