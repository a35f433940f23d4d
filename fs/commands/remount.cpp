#include <sys/mount.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "config/base/log_lines.hpp"
#include "config/mount_options.hpp"
#include "config/settings.hpp"
#include "fs/cli/say.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

namespace {

/// Options of the kernel that mount(8) takes out of mountinfo and passes on: they are as they were.
bool is_of_kernel(const std::string& option) {
    for (const char* name :
         {"user_id=", "group_id=", "rootmode=", "fd=", "blksize=", "max_read=", "allow_other"}) {
        if (option.starts_with(name)) return true;
    }
    return false;
}

struct Wanted {
    std::uint32_t flags = 0;
    std::vector<std::string> settings;  ///< "memory.limit=1G": what a remount does not change
};

Result<Wanted> read_options(const std::vector<std::string>& options) {
    Wanted wanted;
    for (const auto& option : options) {
        if (option == "ro") wanted.flags |= MS_RDONLY;
        if (option == "rw") wanted.flags &= ~std::uint32_t{MS_RDONLY};
        if (option == "ro" || option == "rw" || option == "remount" || is_of_kernel(option)) continue;
        if (const auto known = mount_option(option)) {
            if (!*known) return fail(known->error().within(option));
            wanted.flags = (*known)->applied_to(wanted.flags);
            continue;
        }
        // With fstab's line: what the mount may be is its own affair, ro and rw say what it is to be now.
        if (option.substr(0, option.find('=')) != "writable") wanted.settings.push_back(option);
    }
    return wanted;
}

Result<nlohmann::json> status_of(const MountEntry& mount) {
    const auto address = control_of(mount);
    if (!address) return fail(address.error());
    auto status = ask_control(*address, "status", std::chrono::seconds(10));
    if (!status) return fail(unanswered(mount, status.error().within(mount.mountpoint)));
    return std::move(*status);
}

/// "memory.limit, nvme.path": those that are not as the mount has them. All of them where it does not say, or where they
/// are no settings.
std::string others_than_of(const MountEntry& mount, const std::vector<std::string>& settings) {
    const auto status = settings.empty() ? fail(ENOENT, "") : status_of(mount);
    const auto loaded = load_settings({mount.source, mount.mountpoint, settings, {}, false});
    std::string others;
    for (const auto& option : settings) {
        const auto name = option.substr(0, option.find('='));
        bool is_same = false;
        if (loaded && status) {
            const auto now = status->value("configuration", nlohmann::json::object());
            for (const auto& [key, value] : settings_values(*loaded))
                is_same = is_same || (key == name && now.value(key, std::string()) == value);
        }
        if (!is_same) others += (others.empty() ? "" : ", ") + name;
    }
    return others;
}

/// True: the daemon of that mount can write.
Result<bool> is_writable(const MountEntry& mount) {
    const auto status = status_of(mount);
    if (!status) return fail(status.error());
    try {
        return !status->at("read_only").get<bool>();
    } catch (const nlohmann::json::exception&) {
        return fail(EPROTO, mount.mountpoint + ": the status of the mount is not understood");
    }
}

std::string why_refused(const MountEntry& mount, int code) {
    if (code == EPERM) return mount.mountpoint + " cannot be remounted: only root may";
    if (code == EBUSY)
        return mount.mountpoint +
               " cannot become read-only: files on it are open for writing; close them, and "
               "`fuser -vm` shows whose they are";
    return system_error(code, mount.mountpoint + " cannot be remounted").message;
}

}  // namespace

int remount_command(const std::string& mountpoint, const std::vector<std::string>& options) {
    const auto mount = find_tierfs_mount(mountpoint);
    if (!mount) return command_failed(mount.error().message);
    auto wanted = read_options(options);
    if (!wanted) return command_failed(wanted.error().message);
    const auto now = flags_of_names(mount->options) | flags_of_names(mount->super_options);
    wanted->flags |= now & (MS_NOSUID | MS_NODEV);  // allow_suid is for the life of the mount
    if ((wanted->flags & ~now & MS_DIRSYNC) != 0)
        return command_failed(mount->mountpoint +
                              ": dirsync is for the life of a mount: unmount it and mount it again");
    if ((wanted->flags & MS_RDONLY) == 0 && (now & MS_RDONLY) != 0) {
        const auto writable = is_writable(*mount);
        if (!writable) return command_failed(writable.error().message);
        if (!*writable)
            return command_failed(
                mount->mountpoint +
                " was mounted read-only and is so for its life: unmount it and mount it with "
                "`writable`; to change other options say ro beside them");
    }
    if (::mount(mount->source.c_str(), mount->mountpoint.c_str(), nullptr, wanted->flags | MS_REMOUNT,
                nullptr) != 0)
        return command_failed(why_refused(*mount, errno));
    if (const auto others = others_than_of(*mount, wanted->settings); !others.empty())
        sayf(stderr,
             "tierfs: %s: a remount changes options of mount(8) alone; as they were: %s. `tierfs reload` "
             "takes new settings out of the YAML file\n",
             log::escaped(mount->mountpoint).c_str(), log::escaped(others).c_str());
    return 0;
}

}  // namespace tierfs
