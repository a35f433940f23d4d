// As whom the calling thread acts for a moment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "backends/origin/posix_origin.hpp"

namespace tierfs {

/// For whom a thread asks the directory for something. Plain value.
struct Actor {
    static constexpr std::uint32_t kDaemon = static_cast<std::uint32_t>(-1);
    std::uint32_t uid = kDaemon;  ///< kDaemon: for nobody in particular
    /// He may write to a file without its losing set-user-ID and set-group-ID bits (CAP_FSETID).
    bool keeps_set_id = false;
    std::uint32_t gid = 0;
    pid_t thread = 0;  ///< his, which has further groups; 0: cannot be seen from here
    [[nodiscard]] bool is_root() const { return uid == 0; }
};

/// Said by the code that serves requests on this thread, before each; holds until the next one.
void act_for(const Actor& actor);

/// Until the end of the scope, what this thread makes belongs to the caller: its file system ids
/// (setfsuid(2)) and its umask are the caller's. It keeps its capabilities, since the kernel has checked
/// permissions already, with groups that are not known here; but for CAP_SYS_RESOURCE, unless root asks: blocks
/// that the file system keeps for root, and quotas, are the caller's. A thread that was never in such a scope
/// gets a umask of its own first (unshare(2), CLONE_FS). Without privileges files belong to whom the process
/// runs as.
class CallerScope {
  public:
    explicit CallerScope(const Caller& caller);
    ~CallerScope();
    CallerScope(const CallerScope&) = delete;
    CallerScope& operator=(const CallerScope&) = delete;

  private:
    bool changed_ = false;
    std::uint32_t uid_ = 0, gid_ = 0;
};

/// Until the end of the scope this thread takes room (blocks, names, attributes) as the one that it acts for:
/// without CAP_SYS_RESOURCE and as that user where root alone may have what is asked for. A file that it writes to, or
/// cuts, loses its set-user-ID bit, and its set-group-ID bit where the group may execute it, unless the actor
/// may keep them (`contents`). It may all else that the daemon may.
class ActorScope {
  public:
    enum class Changes : std::uint8_t { names, contents };
    /// `group`: the file's. A set-group-ID bit of a file that the group may not execute stays: whether it
    /// goes depends on the groups of the writer, and the kernel has asked for it before (live_attributes.cpp).
    /// `has_owners`: the file system knows its reserved blocks' owner by number (ext4, F2FS).
    explicit ActorScope(Changes changes, bool has_owners, gid_t group = static_cast<gid_t>(-1));
    ~ActorScope();
    ActorScope(const ActorScope&) = delete;
    ActorScope& operator=(const ActorScope&) = delete;

  protected:
    ActorScope(const Actor& actor, Changes changes, bool has_owners, gid_t group);

  private:
    bool has_other_sets_ = false, has_other_ids_ = false;
};

/// The same for a thread that has the kernel write by itself, with what the thread may now (fs/readwrite's
/// LivePassthrough): for everybody who opens the file later, so never as root. `is_local`: the file system knows
/// users by their numbers alone; else root's requests stay root's.
class StandingScope : public ActorScope {
  public:
    StandingScope(gid_t group, bool is_local);
};

/// Until the end of the scope this thread is the one that it acts for, with his groups and without any
/// capability, unless that is root or nobody in particular: for what the file system below alone can judge.
class ImpersonationScope {
  public:
    ImpersonationScope();
    ~ImpersonationScope();
    ImpersonationScope(const ImpersonationScope&) = delete;
    ImpersonationScope& operator=(const ImpersonationScope&) = delete;

  private:
    bool changed_ = false;
    std::vector<gid_t> groups_;  ///< the daemon's
};

}  // namespace tierfs
