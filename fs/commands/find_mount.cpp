#include "fs/commands/find_mount.hpp"

#include <cerrno>
#include <filesystem>

namespace tierfs {

Result<MountEntry> find_tierfs_mount(const std::string& path) {
    const auto mounts = read_mountinfo();
    if (!mounts) return fail(mounts.error());
    auto resolved = resolve_mountpoint(path);
    if (!resolved) return fail(resolved.error());
    auto found = find_mount(*mounts, *resolved);
    if (!found) {
        // Nothing is mounted right there, so the last component may be looked at: perhaps it is a link.
        std::error_code error;
        const auto real = std::filesystem::canonical(*resolved, error);
        if (!error) found = find_mount(*mounts, real.string());
    }
    if (!found) return fail(ENOENT, path + " is not a mount point: see `findmnt -t fuse.tierfs`");
    if (!found->is_tierfs()) {
        return fail(ENOENT, path + " is a mount of type " + found->type +
                                ", not of tierfs: see `findmnt -t fuse.tierfs`");
    }
    return std::move(*found);
}

}  // namespace tierfs
