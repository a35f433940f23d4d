#include "fs/session/replies.hpp"

#include <cmath>
#include <cstring>

namespace tierfs {

namespace {

/// A time of validity as the kernel has it.
struct Validity {
    std::uint64_t seconds = 0;
    std::uint32_t nanoseconds = 0;
};

Validity validity(double seconds) {
    constexpr double kMost = 4e9;  // longer than a century is for good
    const double kept = std::fmin(std::fmax(seconds, 0.0), kMost);
    const double whole = std::floor(kept);
    return {static_cast<std::uint64_t>(whole), static_cast<std::uint32_t>((kept - whole) * 1e9)};
}

fuse_attr wire(const struct stat& from) {
    fuse_attr to{};
    to.ino = from.st_ino;
    to.size = static_cast<std::uint64_t>(from.st_size);
    to.blocks = static_cast<std::uint64_t>(from.st_blocks);
    to.atime = static_cast<std::uint64_t>(from.st_atim.tv_sec);
    to.mtime = static_cast<std::uint64_t>(from.st_mtim.tv_sec);
    to.ctime = static_cast<std::uint64_t>(from.st_ctim.tv_sec);
    to.atimensec = static_cast<std::uint32_t>(from.st_atim.tv_nsec);
    to.mtimensec = static_cast<std::uint32_t>(from.st_mtim.tv_nsec);
    to.ctimensec = static_cast<std::uint32_t>(from.st_ctim.tv_nsec);
    to.mode = from.st_mode;
    to.nlink = static_cast<std::uint32_t>(from.st_nlink);
    to.uid = from.st_uid;
    to.gid = from.st_gid;
    to.rdev = static_cast<std::uint32_t>(from.st_rdev);
    to.blksize = static_cast<std::uint32_t>(from.st_blksize);
    return to;
}

}  // namespace

CreatedReply created_reply(const fuse_entry_param& entry, const OpenReply& open) {
    const auto of_name = validity(entry.entry_timeout);
    const auto of_attributes = validity(entry.attr_timeout);
    fuse_entry_out out{};
    out.nodeid = entry.ino;
    out.generation = entry.generation;
    out.entry_valid = of_name.seconds;
    out.entry_valid_nsec = of_name.nanoseconds;
    out.attr_valid = of_attributes.seconds;
    out.attr_valid_nsec = of_attributes.nanoseconds;
    out.attr = wire(entry.attr);
    CreatedReply reply{};
    std::memcpy(reply.data(), &out, sizeof(out));
    std::memcpy(&reply.at(sizeof(out)), &open, sizeof(open));
    return reply;
}

}  // namespace tierfs
