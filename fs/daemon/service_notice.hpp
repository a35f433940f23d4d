// Notices to a service manager that keeps a mount.
#pragma once

#include <string_view>

namespace tierfs {

/// Sends one of the states of sd_notify(3), "READY=1", to the socket that NOTIFY_SOCKET names; nothing where
/// it names none, as when no service manager started this process. Of the supervisor in the foreground.
/// Failures are of no consequence here: the service manager's own time limit ends the wait.
void tell_service_manager(std::string_view state);

}  // namespace tierfs
