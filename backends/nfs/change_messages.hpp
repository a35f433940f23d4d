// The messages by which an NFS server's files change: SETATTR, WRITE, COMMIT and what makes, moves and
// removes names (RFC 1813, 3.3.2 and 3.3.7 to 3.3.21). As in messages.hpp nothing from the wire is believed.
#pragma once

#include <ctime>
#include <optional>
#include <string>

#include "backends/nfs/messages.hpp"

namespace tierfs::nfs {

/// sattr3: what is to be set; the rest stays as it is.
struct SetAttributes {
    std::optional<std::uint32_t> mode{}, uid{}, gid{};
    std::optional<std::uint64_t> size{};
    /// With UTIME_NOW in tv_nsec: the server's own clock.
    std::optional<timespec> access{}, modification{};
};
void put(XdrWriter& out, const SetAttributes& attributes);

std::string setattr_arguments(std::string_view handle, const SetAttributes& attributes);

/// diropargs3, of REMOVE and RMDIR, too.
std::string name_arguments(std::string_view directory, std::string_view name);

/// CREATE, EXCLUSIVE: asked again with the same verifier (8 bytes) it finds its own file. Which attributes
/// the file has is the server's affair; SETATTR has to follow (RFC 1813, 3.3.8).
std::string exclusive_create_arguments(std::string_view directory, std::string_view name,
                                       std::string_view verifier);
/// CREATE, UNCHECKED: an empty file, or one that is there.
std::string unchecked_create_arguments(std::string_view directory, std::string_view name,
                                       const SetAttributes& attributes);
std::string mkdir_arguments(std::string_view directory, std::string_view name,
                            const SetAttributes& attributes);
std::string symlink_arguments(std::string_view directory, std::string_view name,
                              const SetAttributes& attributes, std::string_view target);
/// `mode` with the type: a FIFO, a socket or a device.
std::string mknod_arguments(std::string_view directory, std::string_view name, mode_t mode, dev_t device,
                            const SetAttributes& attributes);
std::string rename_arguments(std::string_view from, std::string_view name, std::string_view to,
                             std::string_view new_name);
std::string link_arguments(std::string_view handle, std::string_view directory, std::string_view name);

/// WRITE, UNSTABLE, up to the bytes themselves: `count` of them follow.
std::string write_arguments(std::string_view handle, std::uint64_t offset, std::uint32_t count);
/// Of all that is not yet stable with `count` 0.
std::string commit_arguments(std::string_view handle, std::uint64_t offset, std::uint32_t count);

std::uint32_t read_status(XdrReader& in);

struct WriteReply {
    std::uint32_t status = 0, count = 0;
    std::string verifier;  ///< of this start of the server, 8 bytes
};
WriteReply read_write(XdrReader& in);
/// COMMIT: without a count.
WriteReply read_commit(XdrReader& in);

/// Of CREATE, MKDIR, SYMLINK and MKNOD.
struct MadeReply {
    std::uint32_t status = 0;
    Handle handle;  ///< empty: not told
    std::optional<struct stat> attributes;
};
MadeReply read_made(XdrReader& in);

struct FsstatReply {
    std::uint32_t status = 0;
    std::uint64_t total_bytes = 0, free_bytes = 0, available_bytes = 0;
    std::uint64_t total_files = 0, free_files = 0, available_files = 0;
};
FsstatReply read_fsstat(XdrReader& in);

}  // namespace tierfs::nfs
