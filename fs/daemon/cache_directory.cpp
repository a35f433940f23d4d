#include "fs/daemon/cache_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "backends/origin/object.hpp"
#include "config/base/fault_point.hpp"

namespace tierfs {

namespace {

namespace fs = std::filesystem;

/// Where a user without a home has his folders.
constexpr const char* kShared = "/tmp";

Result<void> make_private_folder(const fs::path& path) {
    if (TIERFS_FAULT_CALL("cache.folder", ::mkdir(path.c_str(), 0700)) != 0 && errno != EEXIST)
        return fail(system_error(errno, path.string()));
    struct stat found {};
    if (TIERFS_FAULT_CALL("cache.stat", ::lstat(path.c_str(), &found)) != 0)
        return fail(system_error(errno, path.string()));
    if (!S_ISDIR(found.st_mode)) return fail(ENOTDIR, path.string() + " is no directory: remove it");
    if (found.st_uid != ::geteuid()) {
        return fail(EPERM, path.string() + " belongs to another user: use another directory");
    }
    if ((found.st_mode & 0777U) != 0700 && ::chmod(path.c_str(), 0700) != 0) {
        return fail(system_error(errno, path.string()));
    }
    return {};
}

/// A folder of this user, with those above it. In /tmp, where anybody may have made it before, it must be this user's alone and
/// no link; elsewhere it may be a link to where there is room.
Result<void> make_user_folder(const fs::path& path) {
    if (path.parent_path() == kShared) return make_private_folder(path);
    std::error_code error;
    if (!TIERFS_FAULT_CODE("scratch.folder", error)) fs::create_directories(path, error);
    return {};  // what is made in it says what is wrong
}

// Directories that were left by processes that no longer run: nobody holds their lock.
void sweep(const fs::path& base) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(base, ignored)) {
        if (!entry.path().filename().string().starts_with("mount-")) continue;
        const FileDescriptor lock(::open((entry.path() / "lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
        if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), ignored);
    }
}

}  // namespace

Result<LockedFolder> LockedFolder::open(const fs::path& parent, const std::string& identity,
                                        const std::string& key, FolderLocks& locks) {
    struct stat found {};
    // The folder itself is made, its parents are not: a missing one is a device that is not mounted, most
    // likely.
    const int making = TIERFS_FAULT_CALL("cache.parent", ::mkdir(parent.c_str(), 0700)) != 0 ? errno : 0;
    if (making == ENOENT) {
        return fail(ENOENT, key + " " + parent.string() + ": " + parent.parent_path().string() +
                                " does not exist: mount the device, or make the folder");
    }
    if (TIERFS_FAULT_CALL("cache.parent.stat", ::stat(parent.c_str(), &found)) != 0) {
        const bool is_missing = errno == ENOENT && making != 0;
        return fail(is_missing ? system_error(making, key + " " + parent.string() + " cannot be made")
                               : system_error(errno, key + " " + parent.string()));
    }
    if (!S_ISDIR(found.st_mode)) return fail(ENOTDIR, key + " " + parent.string() + " is no directory");
    if (TIERFS_FAULT_CALL("cache.access", ::access(parent.c_str(), W_OK | X_OK)) != 0) {
        return fail(system_error(errno, key + " " + parent.string() + " cannot be written to"));
    }
    LockedFolder folder;
    folder.path = parent / to_string(content_id(identity, "", ""));
    if (auto made = make_private_folder(folder.path); !made) return fail(made.error().within(key));
    auto lock = locks.lock(folder.path, std::chrono::seconds(5));
    if (!lock) {
        auto error = lock.error().within(key);
        if (error.code == EBUSY) error.message += ": end that mount, or give this one another " + key;
        return fail(std::move(error));
    }
    folder.lock = std::move(*lock);
    if (TIERFS_FAULT("cache.note") != 0) return folder;  // only for who looks
    std::ofstream(folder.path / "source")
        << "What tierfs caches of " << identity << "\nIt may be removed when no mount uses it.\n";
    return folder;
}

Result<ScratchDirectory> ScratchDirectory::make(const fs::path& base) {
    std::error_code error;
    if (auto made = make_user_folder(base); !made) return fail(made.error().within("the scratch directory"));
    sweep(base);
    ScratchDirectory scratch;
    const auto path = base / ("mount-" + std::to_string(::getpid()));
    if (!TIERFS_FAULT_CODE("scratch.remove", error)) fs::remove_all(path, error);
    if (auto made = make_private_folder(path); !made)
        return fail(made.error().within("the scratch directory"));
    scratch.path_ = path;
    auto lock = lock_folder(path, std::chrono::milliseconds(0));
    if (!lock) return fail(lock.error().within("the scratch directory"));
    scratch.lock_ = std::move(*lock);
    return scratch;
}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

ScratchDirectory& ScratchDirectory::operator=(ScratchDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    return *this;
}

ScratchDirectory::~ScratchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
}

fs::path user_cache_directory() {
    if (::geteuid() == 0) return "/var/cache/tierfs";
    if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
        return fs::path(cache) / "tierfs";
    }
    if (const char* home = std::getenv("HOME");
        home != nullptr && *home == '/' && ::access(home, W_OK) == 0) {
        return fs::path(home) / ".cache" / "tierfs";
    }
    return fs::path(kShared) / ("tierfs-cache-" + std::to_string(::geteuid()));
}

std::string default_log_file(const std::string& mountpoint) {
    const auto folder = ::geteuid() == 0 ? fs::path("/var/log/tierfs") : user_cache_directory();
    if (!make_user_folder(folder) || ::access(folder.c_str(), W_OK) != 0) return {};
    std::string name;
    for (const char letter : std::string_view(mountpoint).substr(mountpoint.starts_with('/') ? 1 : 0)) {
        if (letter == '/') {
            name += '-';
        } else if (letter == '-') {
            name += "\\x2d";  // systemd's way, so that two mount points never share a name
        } else {
            name += letter;
        }
    }
    if (name.empty()) name = "root";
    return (folder / (name.substr(0, 200) + ".log")).string();
}

}  // namespace tierfs
