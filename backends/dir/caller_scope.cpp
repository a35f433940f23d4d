#include "backends/dir/caller_scope.hpp"

#include <linux/capability.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace tierfs {

namespace {

// capabilities(7). glibc has no wrappers for capget and capset; they are about the calling thread.
using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

__user_cap_header_struct header() {
    return {_LINUX_CAPABILITY_VERSION_3, 0};
}

/// What this thread may do in full; nobody changes it but the scopes here.
const Sets& full_sets() {
    static thread_local const Sets sets = [] {
        Sets read{};
        auto about = header();
        ::syscall(SYS_capget, &about, read.data());
        return read;
    }();
    return sets;
}

void set_capabilities(const Sets& sets) {
    auto about = header();
    ::syscall(SYS_capset, &about, sets.data());
}

// umask(2) is of the process, unless a thread has parted from it.
void use_umask(std::uint32_t mask) {
    static thread_local bool has_own = false;
    if (!has_own) {
        ::unshare(CLONE_FS);
        has_own = true;
    }
    ::umask(mask);
}

}  // namespace

CallerScope::CallerScope(const Caller& caller) {
    use_umask(caller.umask);
    uid_ = ::geteuid();
    gid_ = ::getegid();
    if (caller.uid == uid_ && caller.gid == gid_) return;
    changed_ = true;
    const Sets& sets = full_sets();
    // The C library's setfsuid is of the calling thread too, but says nothing of it.
    ::syscall(SYS_setfsgid, caller.gid);
    ::syscall(SYS_setfsuid, caller.uid);  // takes capabilities about files away
    set_capabilities(sets);
}

CallerScope::~CallerScope() {
    if (!changed_) return;
    ::syscall(SYS_setfsuid, uid_);
    ::syscall(SYS_setfsgid, gid_);
    set_capabilities(full_sets());
}

PlainWriterScope::PlainWriterScope() {
    constexpr std::uint32_t kSetId = 1U << CAP_FSETID;
    const Sets& full = full_sets();
    if ((full[0].effective & kSetId) == 0) return;
    Sets less = full;
    less[0].effective &= ~kSetId;
    set_capabilities(less);
    changed_ = true;
}

PlainWriterScope::~PlainWriterScope() {
    if (changed_) set_capabilities(full_sets());
}

}  // namespace tierfs
