// Starts a mount.
#pragma once

#include "config/settings.hpp"

namespace tierfs {

/// Checks, starts the supervisor and returns when the mount answers, or why it does not: the exit status of
/// the command, 0 or 1, with a message on standard error. With settings.foreground the supervisor runs in
/// this process and this returns when the mount has ended. The calling process must have no threads.
int launch_mount(Settings settings);

}  // namespace tierfs
