#include "fs/observe/status.hpp"

#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "config/base/log_lines.hpp"
#include "fs/cli/say.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/parse.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

namespace {

using Json = nlohmann::json;

std::string dumped(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Result<Json> status_of(const MountEntry& mount, std::chrono::seconds patience) {
    const auto address = control_of(mount);
    if (!address) return fail(address.error());
    auto status = ask_control(*address, "status", patience);
    if (!status) return fail(unanswered(mount, status.error().within(mount.mountpoint)));
    return std::move(*status);
}

/// The mount on that path, else the one that it lies in.
Result<MountEntry> mount_of(const std::string& path) {
    auto mount = find_tierfs_mount(path);
    if (mount) return mount;
    const auto mounts = read_mountinfo();
    if (!mounts) return fail(mounts.error());
    auto place = find_place(*mounts, path);
    if (place) return std::move(place->mount);
    const auto at = follow_mountpoint(path);
    const bool is_mount = at && find_mount(*mounts, *at);  // of another type, which the first error names
    return fail(is_mount ? std::move(mount.error()) : std::move(place.error()));
}

/// Every mount of tierfs that this process sees: a line each, or an array of objects.
int list_mounts(bool json) {
    const auto mounts = read_mountinfo();
    if (!mounts) return command_failed(mounts.error().message);
    auto list = Json::array();
    std::string text;
    for (const auto& mount : *mounts) {
        if (!mount.is_tierfs()) continue;
        const auto status = status_of(mount, std::chrono::seconds(3));
        const bool read_only =
            ("," + mount.options + "," + mount.super_options + ",").find(",ro,") != std::string::npos;
        const auto words = status ? std::string("serves") : status.error().message;
        list.push_back({{"mountpoint", mount.mountpoint},
                        {"source", mount.source},
                        {"read_only", read_only},
                        {"serves", status.has_value()},
                        {"error", status ? std::string() : words}});
        text += log::escaped(mount.mountpoint) + "  " + log::escaped(mount.source) + "  " +
                (read_only ? "read-only" : "writable") + "  " + log::escaped(words) + "\n";
    }
    if (json) {
        say_json(stdout, dumped(list));
    } else {
        say(stdout, text.empty() ? "nothing is mounted by tierfs\n" : text);
    }
    return 0;
}

}  // namespace

int status_command(const std::vector<std::string>& arguments) {
    std::string path;
    bool json = false;
    bool settings = false;
    CLI::App app("Says what a mount does and from where its reads come; without PATH, which mounts there are",
                 "tierfs status");
    app.add_option("PATH", path, "a tierfs mount, or a path inside one");
    app.add_flag("--json", json, "print JSON");
    app.add_flag("--settings", settings, "print the settings of the mount, as they are now");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;
    if (path.empty()) return list_mounts(json);

    const auto mount = mount_of(path);
    if (!mount) return command_failed(mount.error().message);
    const auto status = status_of(*mount, std::chrono::seconds(10));
    if (!status) return command_failed(status.error().message);
    if (json) {
        say_json(stdout, dumped(settings ? status->value("configuration", Json::object()) : *status));
        return 0;
    }
    try {
        if (settings) {
            for (const auto& [name, value] :
                 status->value("configuration", std::map<std::string, std::string>()))
                say_line(stdout, name + ": " + value);
            return 0;
        }
        say(stdout, status_text(*status));
    } catch (const Json::exception&) {
        return command_failed(path + ": the status of the mount is not understood: use --json");
    }
    return 0;
}

}  // namespace tierfs
