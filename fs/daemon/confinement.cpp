#include "fs/daemon/confinement.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends/s3/client/credential_files.hpp"
#include "backends/source_url.hpp"
#include "config/base/json_text.hpp"
#include "config/base/log.hpp"
#include "config/listen_address.hpp"

namespace tierfs {

namespace {

#if defined(__SANITIZE_ADDRESS__)
#define TIERFS_FINDS_LEAKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TIERFS_FINDS_LEAKS 1
#endif
#endif

constexpr CapabilitySet bit(int capability) {
    return CapabilitySet{1} << capability;
}

// The other one: whether a process that waits is about to end, and which of those that have a file open closes it
// last, stands in /proc where it is told to whom it may trace alone.
constexpr CapabilitySet kAlways = bit(CAP_SYS_ADMIN) | bit(CAP_SYS_PTRACE);
constexpr CapabilitySet kReads = bit(CAP_DAC_READ_SEARCH);
// Those of callers for whom it acts, and: room of the caller (CAP_SYS_RESOURCE), other hosts' leases.
constexpr CapabilitySet kWritesDirectory = kReads | bit(CAP_DAC_OVERRIDE) | bit(CAP_FOWNER) | bit(CAP_CHOWN) |
                                           bit(CAP_FSETID) | bit(CAP_MKNOD) | bit(CAP_SETUID) |
                                           bit(CAP_SETGID) | bit(CAP_SETFCAP) | bit(CAP_LINUX_IMMUTABLE) |
                                           bit(CAP_LEASE) | bit(CAP_SYS_RESOURCE);
// The supervisor goes to the mount point, whoever owns what is above it.
constexpr CapabilitySet kTakesMountAway = bit(CAP_SYS_ADMIN) | bit(CAP_DAC_READ_SEARCH);

using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

bool get(Sets& sets) {
    __user_cap_header_struct about{_LINUX_CAPABILITY_VERSION_3, 0};
    return ::syscall(SYS_capget, &about, sets.data()) == 0;
}

bool set(const Sets& sets) {
    __user_cap_header_struct about{_LINUX_CAPABILITY_VERSION_3, 0};
    return ::syscall(SYS_capset, &about, sets.data()) == 0;
}

void limit(Sets& sets, CapabilitySet kept, bool is_for_good) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
        const auto part = static_cast<std::uint32_t>(kept >> (32 * i));
        sets.at(i).effective &= part;
        if (!is_for_good) continue;
        sets.at(i).permitted &= part;
        sets.at(i).inheritable &= part;
    }
}

/// What may be used of a path: itself, or the folder that it will be made in.
struct Wanted {
    std::string path;
    int how;
};

std::vector<Wanted> wanted_paths(const Settings& settings) {
    constexpr int kMake = R_OK | W_OK | X_OK;
    std::vector<Wanted> wanted;
    for (const auto& folder : split_paths(settings.nvme_path)) wanted.push_back({folder, kMake});
    const auto parent = [](const std::string& path) {
        return std::filesystem::path(path).parent_path().string();
    };
    wanted.push_back({settings.index_path, kMake});
    wanted.push_back({settings.journal_path, kMake});
    wanted.push_back({parent(settings.log_file), kMake});
    wanted.push_back({settings.log_file, R_OK | W_OK});
    wanted.push_back({parent(settings.mountpoint), X_OK});
    if (const auto metrics = parse_listen_address(settings.metrics_listen))
        wanted.push_back({parent(metrics->path), kMake});
    if (!settings.source.starts_with("s3://") && !settings.pack.starts_with("s3://")) return wanted;
    wanted.push_back({settings.s3_ca_bundle, R_OK});
    wanted.push_back({settings.s3_customer_key, R_OK});
    for (auto& file : s3::credential_files()) wanted.push_back({std::move(file.path), R_OK});
    return wanted;
}

/// Whether it can be used, or will not be for another reason than the owner of something on the way.
bool is_usable(const Wanted& wanted) {
    std::filesystem::path path = wanted.path;
    if (path.empty()) return true;
    while (::faccessat(AT_FDCWD, path.c_str(), wanted.how, AT_EACCESS) != 0) {
        if (errno != ENOENT || (wanted.how & W_OK) == 0 || !path.has_relative_path()) return errno != EACCES;
        path = path.parent_path();
    }
    return true;
}

/// A path that root alone, without these capabilities, cannot use; empty: there is none.
std::string path_out_of_reach(const Settings& settings) {
    Sets before{};
    if (!get(before)) return {};
    Sets less = before;
    limit(less, ~(bit(CAP_DAC_OVERRIDE) | bit(CAP_DAC_READ_SEARCH)), false);
    if (!set(less)) return {};
    std::string found;
    for (const auto& wanted : wanted_paths(settings))
        if (found.empty() && !is_usable(wanted)) found = wanted.path;
    set(before);
    return found;
}

void keep(CapabilitySet kept) {
    Sets sets{};
    if (!get(sets))
        return log::warning("capabilities cannot be given up: " + system_error(errno, "capget").message);
    limit(sets, kept, true);
    if (!set(sets)) log::warning("capabilities cannot be given up: " + system_error(errno, "capset").message);
}

/// Without a look at any folder.
CapabilitySet by_kind(const Settings& settings) {
    CapabilitySet kept = kAlways;
    for (const auto& source : {settings.source, settings.pack}) {
        if (source.empty()) continue;
        if (directory_of_source(source)) kept |= settings.read_only ? kReads : kWritesDirectory;
        if (source.starts_with("s3://") && !settings.read_only) kept |= kReads;  // of /proc/PID/fdinfo
        if (source.starts_with("nfs://")) kept |= bit(CAP_NET_BIND_SERVICE);
    }
    if (const auto metrics = parse_listen_address(settings.metrics_listen);
        metrics && metrics->path.empty() && metrics->port < 1024)
        kept |= bit(CAP_NET_BIND_SERVICE);
    return kept;
}

}  // namespace

CapabilitySet daemon_capabilities(const Settings& settings) {
    CapabilitySet kept = by_kind(settings);
    if (const auto path = path_out_of_reach(settings); !path.empty()) {
        log::info("keeps CAP_DAC_OVERRIDE, since a folder on the way to " + printable(path) +
                  " is not root's alone");
        kept |= bit(CAP_DAC_OVERRIDE);
    }
    return kept;
}

void confine_supervisor(CapabilitySet of_daemons) {
    if (::geteuid() != 0) return;
    const auto kept = of_daemons | kTakesMountAway;
    // Without CAP_SETPCAP the bounding set is another's to limit, who has done so.
    for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
        if ((kept & bit(capability)) == 0) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    keep(kept);
}

// The folders may lie behind the mount, which answers only once this daemon serves it.
void confine_daemon(const Settings& settings, bool is_mounted) {
    if (::geteuid() != 0) return;
    keep(is_mounted ? by_kind(settings) | bit(CAP_DAC_OVERRIDE) : daemon_capabilities(settings));
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        log::warning(system_error(errno, "no_new_privs cannot be set").message);
    if (const auto denied = deny_system_calls(); !denied) log::warning(denied.error().message);
}

// A filter that lets everything else through: what a library calls in its next release works, and the kernel
// keeps a map of calls that are always allowed (Linux 5.11), so that reads cost what they did.
Result<void> deny_system_calls() {
    static constexpr int kDenied[] = {
        SCMP_SYS(mount),
        SCMP_SYS(move_mount),
        SCMP_SYS(fsopen),
        SCMP_SYS(fsmount),
        SCMP_SYS(fsconfig),
        SCMP_SYS(fspick),
        SCMP_SYS(open_tree),
        SCMP_SYS(mount_setattr),
        SCMP_SYS(pivot_root),
        SCMP_SYS(chroot),
        SCMP_SYS(setns),
        SCMP_SYS(swapon),
        SCMP_SYS(swapoff),
        SCMP_SYS(acct),
        SCMP_SYS(quotactl),
        SCMP_SYS(quotactl_fd),
        SCMP_SYS(open_by_handle_at),
        SCMP_SYS(fanotify_init),
#if !defined(TIERFS_FINDS_LEAKS)
        SCMP_SYS(ptrace),
#endif
        SCMP_SYS(process_vm_readv),
        SCMP_SYS(process_vm_writev),
        SCMP_SYS(kcmp),
        SCMP_SYS(pidfd_getfd),
        SCMP_SYS(perf_event_open),
        SCMP_SYS(bpf),
        SCMP_SYS(userfaultfd),
        SCMP_SYS(lookup_dcookie),
        SCMP_SYS(init_module),
        SCMP_SYS(finit_module),
        SCMP_SYS(delete_module),
        SCMP_SYS(kexec_load),
        SCMP_SYS(kexec_file_load),
        SCMP_SYS(reboot),
        SCMP_SYS(syslog),
        SCMP_SYS(vhangup),
        SCMP_SYS(iopl),
        SCMP_SYS(ioperm),
        SCMP_SYS(add_key),
        SCMP_SYS(request_key),
        SCMP_SYS(keyctl),
        SCMP_SYS(settimeofday),
        SCMP_SYS(clock_settime),
        SCMP_SYS(clock_adjtime),
        SCMP_SYS(adjtimex),
        SCMP_SYS(sethostname),
        SCMP_SYS(setdomainname)
    };
    const std::unique_ptr<void, void (*)(scmp_filter_ctx)> filter(::seccomp_init(SCMP_ACT_ALLOW),
                                                                  ::seccomp_release);
    const auto failed = [](int code) {
        return fail(system_error(-code, "system calls cannot be denied: seccomp"));
    };
    if (!filter) return failed(-ENOMEM);
    // A program of another architecture, which only a credential_process could be: its calls have other numbers.
    int code = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    // Those that this architecture does not have are passed over by the library.
    for (const int call : kDenied)
        if (code == 0) code = ::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), call, 0);
    if (code == 0) code = ::seccomp_load(filter.get());
    return code == 0 ? Result<void>() : failed(code);
}

}  // namespace tierfs
