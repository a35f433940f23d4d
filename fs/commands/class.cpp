#include <cstdio>
#include <nlohmann/json.hpp>

#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/parse.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

int class_command(const std::vector<std::string>& arguments) {
    std::string mountpoint;
    std::string match;
    std::string name;
    CLI::App app("Sets the class of a dataset until the mount ends", "tierfs class");
    app.add_option("MOUNTPOINT", mountpoint, "a tierfs mount")->required();
    app.add_option("MATCH", match, "the pattern of its rule, as status shows it; /** for what no rule is for")
        ->required();
    app.add_option("CLASS", name, "auto, epoch, hot, stream, once, pin or none")->required();
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    const auto mount = find_tierfs_mount(mountpoint);
    if (!mount) return command_failed(mount.error().message);
    const auto address = control_of(*mount);
    if (!address) return command_failed(address.error().message);
    const auto done = send_control(*address, {{"command", "class"}, {"match", match}, {"class", name}},
                                   std::chrono::seconds(10));
    return done ? 0 : command_failed(unanswered(*mount, done.error().within(mountpoint)).message);
}

}  // namespace tierfs
