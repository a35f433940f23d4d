// Confinement of the processes of a mount: what root gives up before it serves.
#pragma once

#include <cstdint>

#include "config/base/result.hpp"
#include "config/settings.hpp"

namespace tierfs {

/// A set of capabilities(7): bit N stands for capability N of <linux/capability.h>.
using CapabilitySet = std::uint64_t;

/// What the daemon of such a mount does its work with, when it runs as root. CAP_SYS_ADMIN is always among
/// them: with it the kernel reads files by itself (passthrough), and the mount of a supervisor that died is
/// taken away; and CAP_SYS_PTRACE, to read in /proc of the processes that wait. A bucket takes no other, but one
/// that is written CAP_DAC_READ_SEARCH, for the same; NFS asks from a port below 1024; a directory, also one
/// with a pack, is read with what lets root read all of it, and written with what the callers of a writable
/// mount may do. Folders of the cache and files of settings that root could not use without
/// CAP_DAC_OVERRIDE, since a folder on the way is somebody else's, add that one. Looks at these folders; logs
/// the reason then.
CapabilitySet daemon_capabilities(const Settings& settings);

/// For a process that has no threads yet; what is started later inherits it. Nothing is given up where it
/// does not run as root: another user's daemon has nothing to give, and may need fusermount(1), which is
/// set-user-ID. What cannot be given up is logged, and no reason not to serve.
///
/// The supervisor keeps what its daemons need (daemon_capabilities, from before the mount is there) and what
/// takes a mount away, and no child gets more.
void confine_supervisor(CapabilitySet of_daemons);
/// The daemon keeps daemon_capabilities() alone, gains nothing by exec (no_new_privs), and may not use the
/// system calls that deny_system_calls() names.
/// `is_mounted`: another daemon served the mount; it is the supervisor that knows of CAP_DAC_OVERRIDE then.
void confine_daemon(const Settings& settings, bool is_mounted);

/// The calling process and its children get EPERM from system calls that no file system needs: those that
/// mount, trace or reach into other processes, load code into the kernel, set clocks, open files by handle.
/// Needs no_new_privs or CAP_SYS_ADMIN. Errors: errno of seccomp(2).
Result<void> deny_system_calls();

}  // namespace tierfs
