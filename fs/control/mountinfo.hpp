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

    [[nodiscard]] std::string device() const { return std::to_string(major) + ":" + std::to_string(minor); }
    /// Who mounted it (user_id= of FUSE). Nothing: the line does not say.
    [[nodiscard]] std::optional<uid_t> owner() const;
    [[nodiscard]] bool is_tierfs() const { return type == "fuse.tierfs"; }
};

/// Parses the file's text; lines that are none are left out. \040 and the like are undone.
std::vector<MountEntry> parse_mountinfo(std::string_view text);

/// The mounts that this process sees. EIO when /proc cannot be read.
Result<std::vector<MountEntry>> read_mountinfo();

/// The topmost mount on exactly that path (the last one listed wins).
std::optional<MountEntry> find_mount(const std::vector<MountEntry>& mounts, std::string_view mountpoint);

/// An absolute path without links, "." and "..", found without touching its last component: that may be a
/// mount that does not answer.
Result<std::string> resolve_mountpoint(const std::string& path);

}  // namespace tierfs
