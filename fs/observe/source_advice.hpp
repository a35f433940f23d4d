// The file system under a directory that is mounted through tierfs, and what to change there.
#pragma once

#include <string>
#include <vector>

#include "fs/control/mountinfo.hpp"

namespace tierfs {

/// Plain value; all empty for a source that is no directory.
struct SourceFileSystem {
    std::string type;        ///< "nfs4", "lustre", "ext4": as /proc/self/mountinfo has it
    std::string mountpoint;  ///< the mount that the directory lies on
    std::vector<std::string> advice;

    /// Whether other nodes share it, so that each name and attribute is a question over the network.
    [[nodiscard]] bool is_shared() const;
};

/// Of the mount that `directory` (absolute, without symbolic links) lies on. Told by mountinfo, and not by
/// statfs(2), whose magic numbers say the same but which a dead server does not answer. The advice is about
/// mount options of the kernel's NFS client (nfs(5)); `writable`: also about writing. Pure.
SourceFileSystem source_file_system(const std::vector<MountEntry>& mounts, const std::string& directory,
                                    bool writable);

}  // namespace tierfs
