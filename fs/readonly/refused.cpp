// Everything that would write: this version is read-only. The kernel refuses most of it by itself on a
// read-only mount; what comes through nevertheless is told the same.
#include "fs/readonly/operations.hpp"

namespace tierfs {

namespace {

template <typename... Arguments>
void refuse(fuse_req_t raw, Arguments... /*arguments*/) {
    ::fuse_reply_err(raw, EROFS);
}

}  // namespace

void add_refused_operations(fuse_lowlevel_ops& table) {
    table.setattr = refuse;
    table.mknod = refuse;
    table.mkdir = refuse;
    table.unlink = refuse;
    table.rmdir = refuse;
    table.symlink = refuse;
    table.rename = refuse;
    table.link = refuse;
    table.create = refuse;
    table.write = refuse;
    table.setxattr = refuse;
    table.removexattr = refuse;
    table.fallocate = refuse;
}

}  // namespace tierfs
