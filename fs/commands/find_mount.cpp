#include "fs/commands/find_mount.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "fs/control/dead_mount.hpp"

namespace tierfs {

Result<MountEntry> find_tierfs_mount(const std::string& path) {
    const auto mounts = read_mountinfo();
    if (!mounts) return fail(mounts.error());
    const auto place = follow_mountpoint(path);
    if (!place) return fail(place.error());
    auto found = find_mount(*mounts, *place);
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
    if (auto top = found ? find_mount(mounts, found->mount.mountpoint) : std::nullopt)
        found->mount = std::move(*top);
    return found;
}

std::string name_of(uid_t user) {
    const passwd* entry = ::getpwuid(user);
    const auto number = std::to_string(user);
    return entry != nullptr ? std::string(entry->pw_name) : "user " + number;
}

/// Whether a process has the FUSE connection of that mount. Before Linux 6.17 the kernel does not say which
/// one a descriptor is of: then any counts.
bool serves(pid_t process, const MountEntry& mount) {
    namespace fs = std::filesystem;
    const auto folder = fs::path("/proc") / std::to_string(process);
    std::error_code error;
    for (fs::directory_iterator file(folder / "fd", error), end; !error && file != end;
         file.increment(error)) {
        std::error_code gone;
        if (fs::read_symlink(file->path(), gone) != "/dev/fuse") continue;
        std::ifstream info(folder / "fdinfo" / file->path().filename());
        std::optional<unsigned> connection;
        for (std::string word; info >> word;) {
            if (unsigned number = 0; word == "fuse_connection:" && info >> number) connection = number;
        }
        if (!connection || *connection == mount.minor) return true;
    }
    return false;
}

Result<ControlAddress> address_of(const MountEntry& mount) {
    const auto owner = mount.owner();
    const auto own = control_path(mount.device());
    if (!owner || *owner == ::geteuid()) return ControlAddress(own, owner);
    const auto name = name_of(*owner);
    if (::geteuid() != 0)
        return fail(EACCES, mount.mountpoint + " was mounted by " + name + ": only root and " +
                                (*owner == 0 ? "who is root may" : name + " may") +
                                " command it; run this with sudo" + (*owner == 0 ? "" : ", or as " + name));
    for (auto& path : control_paths_of(*owner, mount.device())) {
        ControlAddress address(std::move(path), owner);
        const auto process = control_owner(address);
        if (process && serves(*process, mount)) return address;
    }
    return fail(ENOENT, mount.mountpoint + " was mounted by " + name +
                            ", and no process of that user answers for it: see whether its daemon runs");
}

}  // namespace

Error unanswered(const MountEntry& mount, Error error) {
    if (error.code == EIO || error.code == ETIMEDOUT || pulse_of(mount) != Pulse::dead) return error;
    return Error{ENOTCONN, dead_mount_words(mount)};
}

Result<ControlAddress> control_of(const MountEntry& mount) {
    auto address = address_of(mount);
    if (!address) return fail(unanswered(mount, address.error()));
    return address;
}

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
    if (!place || !place->mount.is_tierfs()) {
        const bool is_there =
            std::filesystem::symlink_status(absolute, error).type() != std::filesystem::file_type::not_found;
        return fail(ENOENT, path + (is_there ? "" : " does not exist, and") +
                                " lies in no mount of tierfs: see `findmnt -t fuse.tierfs`");
    }
    return std::move(*place);
}

}  // namespace tierfs
