#include "config/mount_options.hpp"

#include <sys/mount.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tierfs {
namespace {

#ifndef MS_NOSYMFOLLOW
constexpr std::uint32_t MS_NOSYMFOLLOW = 256;  // Linux 5.10; glibc has it from 2.36 on
#endif

constexpr std::uint32_t kUsers = MS_NOEXEC | MS_NOSUID | MS_NODEV;

struct Option {
    std::string_view name;  ///< "x-" and "comment=": whatever begins so
    FlagChange change;
    std::string_view refused = {};  ///< why it cannot be honoured; empty: it is
};

// The first of those with a flag is the flag's name.
constexpr std::array kOptions = {
    // to the kernel
    Option{"nosuid", {MS_NOSUID, 0}},
    Option{"nodev", {MS_NODEV, 0}},
    Option{"noexec", {MS_NOEXEC, 0}},
    Option{"noatime", {MS_NOATIME, 0}},
    Option{"nodiratime", {MS_NODIRATIME, 0}},
    Option{"nosymfollow", {MS_NOSYMFOLLOW, 0}},
    Option{"sync", {MS_SYNCHRONOUS, 0}},
    Option{"dirsync", {MS_DIRSYNC, 0}},
    Option{"exec", {0, MS_NOEXEC}},
    Option{"symfollow", {0, MS_NOSYMFOLLOW}},
    Option{"async", {0, MS_SYNCHRONOUS}},
    Option{"atime", {0, MS_NOATIME}},
    Option{"diratime", {0, MS_NODIRATIME}},
    Option{"suid", {0, MS_NOSUID}},
    Option{"dev", {0, MS_NODEV}},
    // what /etc/fstab's permission to mount means for the mount
    Option{"user", {kUsers, 0}},
    Option{"users", {kUsers, 0}},
    Option{"owner", {MS_NOSUID | MS_NODEV, 0}},
    Option{"group", {MS_NOSUID | MS_NODEV, 0}},
    // for mount(8), systemd and people
    Option{"defaults", {}},
    Option{"auto", {}},
    Option{"noauto", {}},
    Option{"nouser", {}},
    Option{"nogroup", {}},
    Option{"noowner", {}},
    Option{"nofail", {}},
    Option{"_netdev", {}},
    Option{"_rnetdev", {}},
    Option{"x-", {}},
    Option{"X-", {}},
    Option{"comment=", {}},
    // so anyway
    Option{"relatime", {}},
    Option{"norelatime", {}},
    Option{"nostrictatime", {}},
    Option{"nolazytime", {}},
    Option{"nomand", {}},
    Option{"noiversion", {}},
    Option{"default_permissions", {}},
    // not possible
    Option{"strictatime", {}, "reading through a mount changes no access times: they are the source's"},
    Option{"lazytime", {}, "reading through a mount changes no access times: they are the source's"},
    Option{"mand", {}, "Linux has no mandatory locks any more"},
    Option{"iversion", {}, "the kernel counts no versions of files of a FUSE mount"},
    Option{"remount", {}, "`mount -o remount,ro DIR` and rw are for a mount that is there, through mount(8)"},
    Option{"bind", {}, "mount --bind shows a mount that is there in a second place"},
    Option{"rbind", {}, "mount --rbind shows a mount that is there in a second place"},
    Option{"move", {}, "mount --move moves a mount that is there"},
    Option{"uhelper=", {}, "`tierfs umount` and umount(8) end a mount"},
    Option{"helper=", {}, "`tierfs umount` and umount(8) end a mount"},
    Option{"fsname=", {}, "a mount has the name of its SOURCE"},
    Option{"subtype=", {}, "the type of a mount is fuse.tierfs"},
    Option{"nonempty", {}, "a mount point is an empty directory"},
    Option{"allow_root", {}, "allow_other lets root see the files, and others as their modes say"},
};

bool fits(const Option& known, std::string_view option) {
    const bool prefix = known.name == "x-" || known.name == "X-" || known.name.back() == '=';
    return prefix ? option.starts_with(known.name) : option == known.name;
}

template <typename Do>
void for_each_word(std::string_view list, Do&& act) {
    for (std::size_t at = 0; at <= list.size();) {
        const auto end = std::min(list.find(',', at), list.size());
        act(list.substr(at, end - at));
        at = end + 1;
    }
}

}  // namespace

std::optional<Result<FlagChange>> mount_option(std::string_view option) {
    const auto* known = std::find_if(kOptions.begin(), kOptions.end(),
                                     [&](const Option& each) { return fits(each, option); });
    if (known == kOptions.end()) return std::nullopt;
    if (known->refused.empty()) return known->change;
    return fail(EINVAL, "it cannot be honoured: " + std::string(known->refused));
}

std::uint32_t all_mount_flags(const Settings& settings) {
    const std::uint32_t safe = settings.allow_suid ? 0 : MS_NOSUID | MS_NODEV;
    return settings.mount_flags | safe | (settings.read_only ? MS_RDONLY : 0);
}

std::string flag_names(std::uint32_t flags) {
    std::string names;
    for (const auto& option : kOptions) {
        if (option.change.set == 0 || (flags & option.change.set) != option.change.set) continue;
        names += (names.empty() ? "" : ",") + std::string(option.name);
        flags &= ~option.change.set;
    }
    return names;
}

std::uint32_t flags_of_names(std::string_view names) {
    std::uint32_t flags = 0;
    for_each_word(names, [&](std::string_view word) {
        if (word == "ro") flags |= MS_RDONLY;
        for (const auto& option : kOptions) {
            if (option.name == word && option.refused.empty()) flags |= option.change.set;
        }
    });
    return flags;
}

}  // namespace tierfs
