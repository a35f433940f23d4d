// A look at other threads: does the one that waits for a request die, does one of ours sleep?
#pragma once

#include <sys/types.h>

namespace tierfs {

/// SIGKILL is pending for the thread: it ends as soon as the kernel lets it. False for one that is gone, and
/// for 0 (of another PID namespace). From /proc/TID/status; any thread.
bool is_about_to_die(pid_t thread);

/// It was killed and is closing its files, which the kernel lets nobody interrupt. From the flags and the
/// exit code in /proc/TID/stat (the code is 0 for those who may not trace it: then false); any thread.
bool is_dying(pid_t thread);

/// One of ours sleeps, for a device too: it neither runs nor waits for a processor. From /proc/self/task; any thread.
bool is_asleep(pid_t thread);

}  // namespace tierfs
