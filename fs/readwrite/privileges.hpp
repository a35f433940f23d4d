// Set-user-ID and set-group-ID bits that go when a file is changed.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>

#include "backends/origin/posix_origin.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// The process that asks for a change.
struct Changer {
    pid_t thread = 0;  ///< as the kernel names it; 0: of a namespace that cannot be seen from here
    std::uint32_t uid = 0, gid = 0;
};

/// True where the group is one of the process that asks, or it has CAP_FSETID. False where that cannot be told.
bool may_have_group_bit(const Changer& changer, gid_t group);

/// Mode that the kernel's own file systems leave of a file that somebody without CAP_FSETID changes
/// (setattr_should_drop_suidgid): no set-user-ID bit, and no set-group-ID bit, but for one of a file that the
/// group may not execute, if `is_in_group`. Of anything but a regular file all. Pure.
mode_t mode_after_change(mode_t mode, bool is_in_group);

/// Whose right it is: a writer's, which the kernel has checked; or the owner's and CAP_FOWNER's.
enum class AskedBy : std::uint8_t { writer, owner };

/// Clears what is to go. Before the change, so that nobody finds new bytes with old bits. EPERM: not his to ask.
Result<void> drop_set_id(PosixOrigin& origin, const PosixNode& node, const Changer& changer,
                         AskedBy asked = AskedBy::writer);

}  // namespace tierfs
