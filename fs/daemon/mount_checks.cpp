#include "fs/daemon/mount_checks.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "backends/s3/client/credential_files.hpp"
#include "backends/source_url.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/file_descriptor.hpp"
#include "fs/control/dead_mount.hpp"
#include "fs/control/mountinfo.hpp"
#include "fs/daemon/mount_in_place.hpp"

namespace tierfs {

namespace {

namespace fs = std::filesystem;

std::string real_path(const std::string& path) {
    std::error_code error;
    const auto real = fs::weakly_canonical(path, error);
    return error ? path : real.string();
}

/// Whether the directory can be looked at: not where a mount of ours ends or is dead, of which mount_in_place
/// takes care. EBUSY: one of ours lives there.
Result<bool> is_bare(const std::string& mountpoint) {
    const auto mounts = read_mountinfo();
    if (!mounts) return fail(mounts.error());
    const auto found = find_mount(*mounts, mountpoint);
    if (!found || !found->is_tierfs()) return true;
    if (pulse_of(*found) == Pulse::alive) return fail(EBUSY, mounted_already(mountpoint, found->source));
    return false;
}

std::string type_on(const std::string& mountpoint) {
    const auto mounts = read_mountinfo();
    const auto found = mounts ? find_mount(*mounts, mountpoint) : std::nullopt;
    return found ? found->type : "unknown";
}

Result<void> check_directory(const std::string& mountpoint) {
    struct stat found {};
    if (TIERFS_FAULT_CALL("mountpoint.stat", ::stat(mountpoint.c_str(), &found)) != 0) {
        if (errno == ENOENT) {
            return fail(ENOENT, "the mount point " + mountpoint + " does not exist: make it with mkdir -p");
        }
        if (errno == ENOTCONN) {
            return fail(ENOTCONN,
                        "the mount point " + mountpoint + " is a dead mount of type " + type_on(mountpoint) +
                            ", which is not tierfs's: end it first with `umount " + mountpoint + "`");
        }
        return fail(system_error(errno, "the mount point " + mountpoint));
    }
    if (!S_ISDIR(found.st_mode)) return fail(ENOTDIR, "the mount point " + mountpoint + " is no directory");
    std::error_code error;
    const fs::directory_iterator first(mountpoint, error);
    if (!error && first != fs::directory_iterator{}) {
        return fail(ENOTEMPTY, "the mount point " + mountpoint +
                                   " is not empty and the mount would hide what is in it: empty it, or mount "
                                   "on another directory");
    }
    return {};
}

/// Without it nothing is mounted; libfuse says only that it failed.
Result<void> check_device() {
    const std::string device = "/dev/fuse";
    const FileDescriptor opened(::open(device.c_str(), O_RDWR | O_CLOEXEC));
    if (opened) return {};
    const auto error = system_error(errno, device + " cannot be opened");
    switch (error.code) {
        case ENOENT:
        case ENODEV:
        case ENXIO:
            return fail(error.code, error.message +
                                        ": the kernel's module is loaded by `modprobe fuse`; a container "
                                        "gets the device by --device /dev/fuse");
        case EACCES:
            return fail(error.code, error.message +
                                        ": mount as root, or let root give it to users with "
                                        "`chmod 666 /dev/fuse`, as udev's rules have it");
        case EPERM:
            return fail(error.code, error.message +
                                        ": a container gets the device by --device /dev/fuse and "
                                        "--cap-add SYS_ADMIN");
        default:
            return fail(error.code, error.message);
    }
}

std::string beneath(const std::string& key, const std::string& path, const std::string& mountpoint) {
    return key + " (" + path + ") lies beneath the mount point " + mountpoint +
           ", which would hide it: give another place";
}

Result<void> check_apart(const std::string& one, const std::string& one_name, const std::string& other,
                         const std::string& other_name) {
    if (is_within(one, other)) {
        return fail(EINVAL, one_name + " (" + one + ") lies inside " + other_name + " (" + other +
                                "): keep them apart");
    }
    if (is_within(other, one)) {
        return fail(EINVAL, other_name + " (" + other + ") lies inside " + one_name + " (" + one +
                                "): keep them apart");
    }
    return {};
}

/// A daemon that takes a mount over reads these before it serves: below the mount point it would wait for itself.
/// The mount point is empty: there is nothing that is missed.
Result<void> keep_out_of(const std::string& mountpoint) {
    for (const auto& file : s3::credential_files()) {
        const auto path = real_path(file.path);
        if (!is_within(path, mountpoint)) continue;
        if (file.is_chosen) return fail(EINVAL, beneath(file.variable, path, mountpoint));
        ::setenv(file.variable.c_str(), "/dev/null", 1);
    }
    return {};
}

}  // namespace

bool is_within(const std::string& inner, const std::string& outer) {
    if (inner == outer || outer == "/") return true;
    return inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '/';
}

std::string source_directory(const std::string& source) {
    const auto directory = directory_of_source(source);
    return directory && directory->starts_with('/') ? *directory : std::string{};
}

Result<std::string> check_mount(const Settings& settings) {
    const auto path = follow_mountpoint(settings.mountpoint);
    if (!path) return fail(path.error().within("the mount point " + settings.mountpoint));
    const std::string& mountpoint = *path;
    if (auto checked = check_device(); !checked) return fail(checked.error());
    const auto bare = is_bare(mountpoint);
    if (!bare) return fail(bare.error());
    if (*bare) {
        if (auto checked = check_directory(mountpoint); !checked) return fail(checked.error());
    }

    const auto directory = source_directory(settings.source);
    const auto source = directory.empty() ? std::string{} : real_path(directory);
    if (!source.empty()) {
        if (auto apart = check_apart(mountpoint, "the mount point", source, "SOURCE"); !apart) {
            return fail(apart.error());
        }
    }
    if (settings.source.starts_with("s3://") || settings.pack.starts_with("s3://")) {
        if (auto kept = keep_out_of(mountpoint); !kept) return fail(kept.error());
    }
    std::vector<std::pair<const char*, std::string>> caches{{"index.path", settings.index_path},
                                                            {"journal.path", settings.journal_path}};
    for (const std::string& each : split_paths(settings.nvme_path)) caches.emplace_back("nvme.path", each);
    for (const auto& [key, value] : caches) {
        if (value.empty()) continue;
        const auto cache = real_path(value);
        if (is_within(cache, mountpoint)) return fail(EINVAL, beneath(key, cache, mountpoint));
        if (source.empty()) continue;
        if (auto apart = check_apart(cache, key, source, "SOURCE"); !apart) return fail(apart.error());
    }
    return mountpoint;
}

Result<void> check_mounted(const Settings& settings) {
    const auto mounts = read_mountinfo();
    if (!mounts) return fail(mounts.error());
    const auto found = find_mount(*mounts, settings.mountpoint);
    if (found && found->is_tierfs()) return {};
    return fail(EIO, "the mount on " + settings.mountpoint + " ended right after its start" +
                         (settings.log_file.empty() ? std::string{} : ": see " + settings.log_file));
}

}  // namespace tierfs
