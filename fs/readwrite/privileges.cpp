#include "fs/readwrite/privileges.hpp"

#include <linux/capability.h>

#include "backends/dir/credentials.hpp"

namespace tierfs {

bool may_have_group_bit(const Changer& changer, gid_t group) {
    if (changer.gid == group) return true;
    const auto credentials = credentials_of(changer.thread);
    return credentials.is_in(group) || credentials.may(CAP_FSETID);
}

mode_t mode_after_change(mode_t mode, bool is_in_group) {
    if (!S_ISREG(mode)) return mode;
    mode &= ~static_cast<mode_t>(S_ISUID);
    if ((mode & S_IXGRP) != 0 || !is_in_group) mode &= ~static_cast<mode_t>(S_ISGID);
    return mode;
}

Result<void> drop_set_id(PosixOrigin& origin, const PosixNode& node, const Changer& changer, AskedBy asked) {
    const auto now = origin.attributes(node);
    if (!now) return fail(now.error());
    const auto mode = now->status.st_mode;
    if (!S_ISREG(mode) || (mode & (S_ISUID | S_ISGID)) == 0) return {};
    if (asked == AskedBy::owner && changer.uid != now->status.st_uid &&
        !credentials_of(changer.thread).may(CAP_FOWNER)) {
        return fail(EPERM, "the set-user-ID bits of a file are its owner's to clear");
    }
    const auto left = mode_after_change(mode, may_have_group_bit(changer, now->status.st_gid));
    if (left == mode) return {};
    return origin.set_mode(node, left);
}

}  // namespace tierfs
