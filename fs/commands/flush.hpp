// Waits until a write-back mount has brought to its bucket what it had acknowledged.
#pragma once

#include <string>

#include "config/base/result.hpp"
#include "fs/cli/stop_flag.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

/// Has all that is in the journal by now brought to the bucket at once, and waits for it, with progress on standard error.
/// Of other mounts: nothing is to be done. EAGAIN: the bucket has taken nothing for a minute; EINTR: `stop`.
Result<void> flush_mount(const ControlAddress& address, const StopFlag& stop);

}  // namespace tierfs
