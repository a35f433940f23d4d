#include "fs/commands/find_mount.hpp"

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

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

namespace {

/// What is left of `path` behind the mount point; nothing when it does not lie below it.
std::optional<std::string> behind(const std::string& path, const std::string& mountpoint) {
    if (path == mountpoint) return std::string();
    const std::string folder = mountpoint == "/" ? mountpoint : mountpoint + "/";
    if (!path.starts_with(folder)) return std::nullopt;
    return path.substr(folder.size());
}

/// The mount that holds the path: of several inside each other the innermost, the topmost of those.
std::optional<PlaceInMount> innermost(const std::vector<MountEntry>& mounts, const std::string& path) {
    std::optional<PlaceInMount> found;
    for (const auto& mount : mounts) {
        auto rest = behind(path, mount.mountpoint);
        if (rest && (!found || rest->size() <= found->path.size()))
            found = PlaceInMount{mount, std::move(*rest)};
    }
    return found;
}

}  // namespace

Result<PlaceInMount> find_place(const std::vector<MountEntry>& mounts, const std::string& path) {
    std::error_code error;
    auto absolute = std::filesystem::absolute(path, error).lexically_normal();
    if (error) return fail(error.value(), path + ": " + error.message());
    if (!absolute.has_filename() && absolute.has_relative_path()) absolute = absolute.parent_path();
    auto place = innermost(mounts, absolute.string());
    if (!place || !place->mount.is_tierfs()) {
        // Nothing of tierfs is on the way by name: links may lead there.
        const auto real = std::filesystem::weakly_canonical(absolute, error);
        if (!error) place = innermost(mounts, real.string());
    }
    if (!place || !place->mount.is_tierfs())
        return fail(ENOENT, path + " lies in no mount of tierfs: see `findmnt -t fuse.tierfs`");
    return std::move(*place);
}

}  // namespace tierfs
