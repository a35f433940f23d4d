// fs/commands/: the `tierfs` command line. Each function runs one command to its end and returns the exit
// status: 0 done, 1 failed, 2 wrong usage. Called by main, before there are threads.
#pragma once

#include <string>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs {

/// Picks the command by the program's name (mount.tierfs, mount.fuse.tierfs: see mount_helper) and by the
/// first argument.
int run_command_line(int argc, char** argv);

int mount_command(const std::vector<std::string>& arguments);
/// As mount(8) calls it: SOURCE DIR [-sfnvN] [-o options].
int mount_helper(const std::vector<std::string>& arguments);
/// As mount(8) calls it for `mount -o remount,ro DIR`: only flags of the mount change.
int remount_command(const std::string& mountpoint, const std::vector<std::string>& options);
int status_command(const std::vector<std::string>& arguments);
int top_command(const std::vector<std::string>& arguments);
int trace_command(const std::vector<std::string>& arguments);
int doctor_command(const std::vector<std::string>& arguments);
int reload_command(const std::vector<std::string>& arguments);
int flush_command(const std::vector<std::string>& arguments);
int umount_command(const std::vector<std::string>& arguments);
int warm_command(const std::vector<std::string>& arguments);
int evict_command(const std::vector<std::string>& arguments);
int pin_command(const std::vector<std::string>& arguments);
int unpin_command(const std::vector<std::string>& arguments);
int class_command(const std::vector<std::string>& arguments);
int pack_command(const std::vector<std::string>& arguments);
int verify_command(const std::vector<std::string>& arguments);
int config_command(const std::vector<std::string>& arguments);

/// "a,b=c\,d" to "a" and "b=c,d": a backslash keeps the next character as it is.
std::vector<std::string> split_options(const std::string& text);

/// Prints "tierfs: WHY" on standard error and returns 1. On one line, whatever names there are in it.
int command_failed(const std::string& why);

/// "tierfs: WHY", and that `COMMAND --help` says how it is used. Returns 2.
int wrong_usage(const std::string& why, const std::string& command = "tierfs");

/// The same for what load_settings() found, a line for each problem. Returns 2 where it is a wrong usage.
int settings_refused(const Error& error);

}  // namespace tierfs
