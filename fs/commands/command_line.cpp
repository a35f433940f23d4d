#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "config/base/log_lines.hpp"
#include "config/settings.hpp"
#include "fs/cli/environment.hpp"
#include "fs/cli/say.hpp"
#include "fs/commands/commands.hpp"
#include "fs/daemon/standby.hpp"

namespace tierfs {

namespace {

constexpr const char* kUsage =
    "Usage: tierfs SOURCE MOUNTPOINT [-o KEY=VALUE,...] [-f]\n"
    "       tierfs status [PATH] [--settings] [--json]\n"
    "       tierfs top MOUNTPOINT [--once | --batch] [--interval SECONDS]\n"
    "       tierfs doctor MOUNTPOINT [--seconds N] [--json]\n"
    "       tierfs trace MOUNTPOINT [--seconds N] [--limit N] [--json | --order] [-o FILE]\n"
    "       tierfs flush PATH [--wait] [--json]\n"
    "       tierfs umount MOUNTPOINT [--leave] [--lazy | --dead]\n"
    "       tierfs reload MOUNTPOINT [--json]\n"
    "       tierfs warm PATH... [-f LIST] [--wait | --cancel] [--json]\n"
    "       tierfs evict PATH... [-f LIST] [--json]\n"
    "       tierfs pin PATH... [-f LIST] [--wait | --cancel] [--json]\n"
    "       tierfs unpin PATH... [-f LIST] [--json]\n"
    "       tierfs class MOUNTPOINT MATCH CLASS\n"
    "       tierfs pack SOURCE DEST [--shard I/N] [--order FILE] [--codec CODEC] [--update] [--prune]\n"
    "                   [--dry-run] [--json] [-o KEY=VALUE,...]\n"
    "       tierfs verify CACHE-or-PACK [--repair] [--json] [-o KEY=VALUE,...]\n"
    "       tierfs config [--defaults | --check FILE [PATH...]]\n"
    "       tierfs --help | --version\n";

int print_help() {
    sayf(
        stdout,
        "%s\nMounts a dataset that lies in an object store, on an NFS server or in a directory as a local "
        "file "
        "system,\nread-only unless rw (with mount(8): writable) is said, served from this node's memory and NVMe.\n\n"
        "SOURCE      s3://BUCKET[/PREFIX], nfs://HOST/EXPORT[/PATH], an absolute directory, or "
        "file:///DIRECTORY\n"
        "MOUNTPOINT  an empty directory\n"
        "-o OPTIONS  settings, as KEY=VALUE or KEY, with commas between\n"
        "-f          stay in the foreground and log to standard error\n\n"
        "Settings, with their defaults:\n%s\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage. More in tierfs(8).\n",
        kUsage, settings_help().c_str());
    return 0;
}

std::string_view program_name(const char* path) {
    const std::string_view name = path == nullptr ? "" : path;
    return name.substr(name.find_last_of('/') + 1);  // npos + 1 is 0
}

}  // namespace

int command_failed(const std::string& why) {
    say_line(stderr, "tierfs: " + why);
    return 1;
}

int wrong_usage(const std::string& why, const std::string& command) {
    sayf(stderr, "tierfs: %s; `%s --help` shows how it is used\n", log::escaped(why).c_str(),
         command.c_str());
    return 2;
}

int settings_refused(const Error& error) {
    const std::string_view problems = error.message;
    std::string text;
    for (std::size_t at = 0; at <= problems.size();) {
        const auto end = std::min(problems.find('\n', at), problems.size());
        text += log::escaped(problems.substr(at, end - at)) + "\n";
        at = end + 1;
    }
    sayf(stderr, "tierfs: %s", text.c_str());
    return error.code == EINVAL ? 2 : 1;
}

std::vector<std::string> split_options(const std::string& text) {
    std::vector<std::string> options;
    std::string option;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 1 < text.size()) {
            option += text[++i];
        } else if (text[i] == ',') {
            if (!option.empty()) options.push_back(option);
            option.clear();
        } else {
            option += text[i];
        }
    }
    if (!option.empty()) options.push_back(option);
    return options;
}

int run_command_line(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const auto program = program_name(argc > 0 ? argv[0] : nullptr);
    if (program == "mount.tierfs" || program == "mount.fuse.tierfs") return mount_helper(arguments);
    if (arguments.empty()) return wrong_usage("SOURCE and MOUNTPOINT are missing");
    const std::string& first = arguments.front();
    const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
    if (first == "--help" || first == "-h" || first == "help") return print_help();
    if (first == "--version" || first == "-V") {
        sayf(stdout, "tierfs %s\n", TIERFS_VERSION);
        return 0;
    }
    if (first == "status") return status_command(rest);
    if (first == "top") return top_command(rest);
    if (first == "doctor") return doctor_command(rest);
    if (first == "trace") return trace_command(rest);
    if (first == "reload") return reload_command(rest);
    if (first == "--take-over" && !rest.empty())  // by a supervisor alone
        return run_standby(std::atoi(rest.front().c_str()), process_environment());
    if (first == "flush") return flush_command(rest);
    if (first == "umount") return umount_command(rest);
    if (first == "warm") return warm_command(rest);
    if (first == "evict") return evict_command(rest);
    if (first == "pin") return pin_command(rest);
    if (first == "unpin") return unpin_command(rest);
    if (first == "class") return class_command(rest);
    if (first == "pack") return pack_command(rest);
    if (first == "verify") return verify_command(rest);
    if (first == "config") return config_command(rest);
    if (!first.starts_with('-') && first.find_first_of("/:") == std::string::npos) {
        return wrong_usage("there is no command \"" + first +
                           "\", and a SOURCE is a URL or an absolute path");
    }
    return mount_command(arguments);
}

}  // namespace tierfs
