#include "backends/dir/caller_scope.hpp"

#include <linux/capability.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "backends/dir/credentials.hpp"

namespace tierfs {

namespace {

// capabilities(7). glibc has no wrappers for capget and capset; they are about the calling thread.
using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

__user_cap_header_struct header() {
    return {_LINUX_CAPABILITY_VERSION_3, 0};
}

constexpr std::uint32_t kSetId = 1U << CAP_FSETID, kResources = 1U << CAP_SYS_RESOURCE;
constexpr std::uint32_t kSomebody = 65534;  // nobody: owns no reserved blocks

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

Actor& actor_of_this_thread() {
    static thread_local Actor actor;
    return actor;
}

}  // namespace

void act_for(const Actor& actor) {
    actor_of_this_thread() = actor;
}

CallerScope::CallerScope(const Caller& caller) {
    use_umask(caller.umask);
    uid_ = ::geteuid();
    gid_ = ::getegid();
    if (caller.uid == uid_ && caller.gid == gid_) return;
    changed_ = true;
    Sets sets = full_sets();
    if (caller.uid != 0) sets[0].effective &= ~kResources;
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

ActorScope::ActorScope(Changes changes, bool has_owners, gid_t group)
    : ActorScope(actor_of_this_thread(), changes, has_owners, group) {}

ActorScope::ActorScope(const Actor& actor, Changes changes, bool has_owners, gid_t group) {
    const Sets& full = full_sets();
    Sets less = full;
    if (changes == Changes::contents && !actor.keeps_set_id) less[0].effective &= ~kSetId;
    if (!actor.is_root()) less[0].effective &= ~kResources;
    if (less[0].effective == full[0].effective) return;
    has_other_sets_ = true;
    if (has_owners && actor.uid != Actor::kDaemon && !actor.is_root()) {
        has_other_ids_ = true;
        ::syscall(SYS_setfsuid, actor.uid);
    }
    if (changes == Changes::contents && group != static_cast<gid_t>(-1)) {
        has_other_ids_ = true;
        ::syscall(SYS_setfsgid, group);
    }
    set_capabilities(less);
}

ActorScope::~ActorScope() {
    if (has_other_ids_) {
        ::syscall(SYS_setfsuid, ::geteuid());
        ::syscall(SYS_setfsgid, ::getegid());
    }
    if (has_other_sets_) set_capabilities(full_sets());
}

StandingScope::StandingScope(gid_t group, bool is_local)
    : ActorScope(
          [is_local] {
              Actor actor = actor_of_this_thread();
              actor.keeps_set_id = false;
              if (actor.is_root()) actor.uid = is_local ? kSomebody : Actor::kDaemon;
              return actor;
          }(),
          Changes::contents, true, group) {}

// setgroups(2) of the C library is of all threads, the system call of this one.
ImpersonationScope::ImpersonationScope() {
    const Actor& actor = actor_of_this_thread();
    constexpr std::uint32_t kSetGroups = 1U << CAP_SETGID;
    if (actor.uid == Actor::kDaemon || actor.is_root() || actor.uid == ::geteuid()) return;
    if ((full_sets()[0].effective & kSetGroups) == 0) return;
    const auto groups = credentials_of(actor.thread).groups;
    groups_.resize(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
    if (::getgroups(static_cast<int>(groups_.size()), groups_.data()) < 0) groups_.clear();
    changed_ = true;
    ::syscall(SYS_setgroups, groups.size(), groups.data());
    ::syscall(SYS_setfsgid, actor.gid);
    ::syscall(SYS_setfsuid, actor.uid);
    Sets none = full_sets();
    for (auto& set : none) set.effective = 0;
    set_capabilities(none);
}

ImpersonationScope::~ImpersonationScope() {
    if (!changed_) return;
    set_capabilities(full_sets());
    ::syscall(SYS_setfsuid, ::geteuid());
    ::syscall(SYS_setfsgid, ::getegid());
    ::syscall(SYS_setgroups, groups_.size(), groups_.data());
    set_capabilities(full_sets());
}

}  // namespace tierfs
