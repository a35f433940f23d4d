// Starts a mount.
#pragma once

#include <string>

#include "config/settings.hpp"

namespace tierfs {

/// Checks, starts the supervisor and returns when the mount answers, or why it does not: the exit status of
/// the command, 0 or 1, with a message on standard error. With settings.foreground the supervisor runs in
/// this process and this returns when the mount has ended. The calling process must have no threads.
/// `sources`: what the settings were made of, for a reload.
int launch_mount(Settings settings, SettingsSources sources);

/// Paths among the settings as everybody writes them who may compare them.
void make_paths_absolute(Settings& settings);

/// The path that this program was started by, absolute, links in it as they are: there an upgrade puts its
/// successor. Where that leads to another file (a wrapper) the program's own. Before a change of directory.
std::string program_path();

/// Lines go where the settings say; why not, or nothing.
std::string open_log(const Settings& settings);

}  // namespace tierfs
