// backends/nfs/: an export of an NFSv3 server as an origin, without the kernel's client and without root.
//
// This speaks ONC RPC and NFSv3 itself instead of through libnfs, which the plan of this project names: the
// decoders of libnfs 4.0.0 (Debian 12) add lengths from the wire to positions without looking at overflow,
// and follow the lists of READDIRPLUS by recursion, so that a damaged reply ends the process; a reply whose
// direction says CALL makes it write through a pointer that was never set. A daemon that serves a node's
// dataset cannot hand it bytes from a network. It also means that the bytes of READ go from the socket to
// where they are wanted, without a copy between.
#pragma once

#include <memory>

#include "backends/origin/origin.hpp"

namespace tierfs {

/// settings.source is nfs://HOST[,HOST]/EXPORT[/PATH][?OPTIONS] (config/nfs_url.hpp). Sends nothing yet.
/// EINVAL for a URL that cannot be.
Result<std::unique_ptr<Origin>> open_nfs_origin(const Settings& settings);

}  // namespace tierfs
