// The decision whether a mount of tierfs is dead, for all who ask.
#pragma once

#include <string>

#include "fs/control/mountinfo.hpp"

namespace tierfs {

enum class Pulse {
    alive,   ///< its connection with the kernel stands, and somebody listens on its control socket
    ending,  ///< one of both holds: its processes start or end, or cannot be seen from here
    dead,    ///< nobody serves it, nor will: the kernel answers what is asked of it with ENOTCONN
};

/// What is left of a mount of tierfs. The kernel has the last word: what it does not call disconnected is not
/// dead, and one that it calls so is none while its owner's process listens on the control socket (that one
/// may pass on an ENOTCONN of its source). A mount that another one lies on top of is not dead either: nothing
/// can be told of it.
///
/// The mount is asked by statfs(2), which no cache answers, in a process of its own, as the user who mounted,
/// and is given up after five seconds: this returns whatever the mount does. Works with threads, too. A socket
/// in another name space is not seen: then it is the kernel's word alone.
Pulse pulse_of(const MountEntry& mount);

/// What people are told of a dead mount: that it is dead, why that is so, and which commands end it.
std::string dead_mount_words(const MountEntry& mount);

}  // namespace tierfs
