// Stacks of our own threads, for the log.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tierfs {

/// Takes stacks of threads of this process: a real-time signal makes each thread unwind its own stack into a
/// slot made beforehand, and the caller reads it.
///
/// The handler is async-signal-safe although POSIX does not list backtrace(3): with glibc >= 2.35 and
/// libgcc >= 12 the unwinder finds its tables without a lock (_dl_find_object) and allocates nothing once
/// libgcc_s is loaded, which prepare() sees to. The signal is taken with SA_RESTART. A thread that the kernel
/// does not let go (an uninterruptible wait) does not answer: of it there is what /proc tells.
///
/// One caller at a time in a process. prepare() first, from any thread.
class ThreadStacks {
  public:
    static void prepare();

    /// One line for each group of threads that do the same, the frames from the innermost on. Threads in
    /// `left_out` are not disturbed, those that end meanwhile left out. Takes up to half a second for a
    /// thread that does not answer, two seconds for all of them: whoever comes later is not waited for.
    static std::vector<std::string> describe(const std::vector<pid_t>& left_out);
};

}  // namespace tierfs
