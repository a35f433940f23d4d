// Mounts of this machine from /proc/self/mountinfo: never from the mount itself, which may not answer.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs {

/// One line of proc_pid_mountinfo(5). Plain value.
struct MountEntry {
    unsigned id = 0;  ///< of the mount, as statx tells it
    unsigned major = 0, minor = 0;
    std::string mountpoint;     ///< unescaped
    std::string type;           ///< "fuse.tierfs"
    std::string source;         ///< unescaped
    std::string options;        ///< of this mount, separated by commas: "rw,noatime"
    std::string super_options;  ///< of the file system
    unsigned parent = 0;        ///< id of the mount that it lies on

    [[nodiscard]] std::string device() const { return std::to_string(major) + ":" + std::to_string(minor); }
    /// Who mounted it (user_id= of FUSE). Nothing: the line does not say.
    [[nodiscard]] std::optional<uid_t> owner() const;
    [[nodiscard]] std::optional<gid_t> group() const;  ///< the same of group_id=
    [[nodiscard]] bool is_tierfs() const { return type == "fuse.tierfs"; }
};

/// Parses the file's text; lines that are none are left out. \040 and the like are undone.
std::vector<MountEntry> parse_mountinfo(std::string_view text);

/// The mounts that this process sees. EIO when /proc cannot be read.
Result<std::vector<MountEntry>> read_mountinfo();

/// The mounts on exactly that path that lie upon each other, the topmost last. Who lies on whom their parents
/// tell; of several that lie on none of the others the last one listed is on top.
std::vector<MountEntry> mounts_on(const std::vector<MountEntry>& mounts, std::string_view mountpoint);

/// The topmost mount on exactly that path.
std::optional<MountEntry> find_mount(const std::vector<MountEntry>& mounts, std::string_view mountpoint);

/// An absolute path without links, "." and "..", found without touching its last component: that may be a
/// mount that does not answer.
Result<std::string> resolve_mountpoint(const std::string& path);

/// The same where the last component may be a link: followed by readlink(2) alone, which asks no mount.
Result<std::string> follow_mountpoint(const std::string& path);

}  // namespace tierfs
