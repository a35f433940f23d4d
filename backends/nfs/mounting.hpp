// The way to the root of an export: the portmapper, the mount service, FSINFO.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "backends/nfs/address.hpp"
#include "backends/nfs/messages.hpp"
#include "config/base/result.hpp"

namespace tierfs::nfs {

struct MountRequest {
    std::vector<std::string> hosts;
    std::string path;                       ///< "/export/path"
    unsigned nfs_port = 0, mount_port = 0;  ///< 0: the portmapper is asked
    std::string credential;                 ///< see auth_sys
};

struct Mounted {
    std::vector<Address> addresses;  ///< of the NFS service; of hosts that were found
    Handle root;                     ///< of MountRequest::path
    FsinfoReply sizes;
};

/// Asks the first host that answers. Blocks until `deadline`, but for the system's resolver, which has limits
/// of its own. Where the path is no export itself, the longest leading part that is one is mounted and the
/// rest looked up. ENOENT when nothing of it is exported or the directory is not there; EACCES; ETIMEDOUT,
/// ECONNREFUSED and their like when nobody answers; EOPNOTSUPP when the server has no NFSv3.
Result<Mounted> mount_export(const MountRequest& request, std::chrono::steady_clock::time_point deadline);

}  // namespace tierfs::nfs
