// The messages of NFS version 3 (RFC 1813), of its mount protocol, of the portmapper (RFC 1833) and of ONC
// RPC (RFC 5531), as far as they are needed. What comes from the wire is never believed: counts and lengths
// have limits, and a message that does not fit is refused as a whole.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/nfs/xdr.hpp"
#include "backends/origin/origin.hpp"

namespace tierfs::nfs {

/// Program, version and number of a remote procedure.
struct Procedure {
    std::uint32_t program = 0, version = 0, number = 0;
    friend bool operator==(const Procedure&, const Procedure&) = default;
};

inline constexpr std::uint32_t kNfsProgram = 100003, kMountProgram = 100005, kPortmapProgram = 100000;

inline constexpr Procedure kGetattr{kNfsProgram, 3, 1}, kSetattr{kNfsProgram, 3, 2},
    kLookup{kNfsProgram, 3, 3}, kReadlink{kNfsProgram, 3, 5}, kRead{kNfsProgram, 3, 6},
    kWrite{kNfsProgram, 3, 7}, kCreate{kNfsProgram, 3, 8}, kMkdir{kNfsProgram, 3, 9},
    kSymlink{kNfsProgram, 3, 10}, kMknod{kNfsProgram, 3, 11}, kRemove{kNfsProgram, 3, 12},
    kRmdir{kNfsProgram, 3, 13}, kRename{kNfsProgram, 3, 14}, kLink{kNfsProgram, 3, 15},
    kReaddir{kNfsProgram, 3, 16}, kReaddirplus{kNfsProgram, 3, 17}, kFsstat{kNfsProgram, 3, 18},
    kFsinfo{kNfsProgram, 3, 19}, kCommit{kNfsProgram, 3, 21};
inline constexpr Procedure kMnt{kMountProgram, 3, 1}, kExport{kMountProgram, 3, 5};
inline constexpr Procedure kGetport{kPortmapProgram, 2, 3};

/// nfsstat3: 0 is good; the rest are UNIX numbers and some of NFS's own.
enum Status : std::uint32_t {
    kOk = 0,
    kNotOwner = 1,  ///< NFS3ERR_PERM
    kNoEntry = 2,
    kNoAccess = 13,
    kExists = 17,
    kStale = 70,
    kBadHandle = 10001,
    kNotSync = 10002,
    kBadCookie = 10003,
    kNotSupported = 10004,
    kTooSmall = 10005,
    kJukebox = 10008,
};

/// The errno of a status that is not kOk, as Origin's callers know it.
int to_errno(std::uint32_t status);

/// "NFS3ERR_ACCES", or the number.
std::string status_name(std::uint32_t status);

/// What the server calls a file: up to 64 bytes that mean nothing to anybody else.
using Handle = std::string;
inline constexpr std::size_t kLongestHandle = 64;

struct FileAttributes3 {
    Attributes attributes;      ///< its version is made by version_of
    std::uint64_t file_id = 0;  ///< inode number
    bool is_special = false;    ///< socket, pipe, device
};

/// "fileid:size:mtime_ns:ctime_ns" as a directory's files have it.
std::string version_of(const FileAttributes3& file);
/// The same with a mark where the file has just changed (backends/origin/young_version.hpp). The clocks of server
/// and client are held for the same within a second.
std::string shown_version_of(const FileAttributes3& file);

// -- calls
// ------------------------------------------------------------------------------------------------------

/// The body of an AUTH_SYS credential (RFC 5531, appendix A); at most 16 groups.
std::string auth_sys(std::string_view machine, std::uint32_t uid, std::uint32_t gid,
                     const std::vector<std::uint32_t>& groups);

/// A whole call without its record mark.
std::string make_call(std::uint32_t xid, const Procedure& procedure, std::string_view credential,
                      std::string_view arguments);

std::string handle_arguments(std::string_view handle);
std::string lookup_arguments(std::string_view directory, std::string_view name);
std::string read_arguments(std::string_view handle, std::uint64_t offset, std::uint32_t count);
std::string readdirplus_arguments(std::string_view directory, std::uint64_t cookie, std::string_view verifier,
                                  std::uint32_t names, std::uint32_t bytes);
std::string readdir_arguments(std::string_view directory, std::uint64_t cookie, std::string_view verifier,
                              std::uint32_t bytes);

// -- replies
// ----------------------------------------------------------------------------------------------------

/// How the server took a call: 0, or the errno and what it means.
struct Acceptance {
    int code = 0;
    std::string_view what;
};

/// The head of a reply after its xid, up to the procedure's own part. Not ok(): no reply.
Acceptance read_acceptance(XdrReader& in);

std::optional<FileAttributes3> read_post_attributes(XdrReader& in);
FileAttributes3 read_attributes(XdrReader& in);
/// The same as stat(2) has it. st_dev is made of the server's fsid.
struct stat read_stat(XdrReader& in);
FileAttributes3 to_attributes(const struct stat& status);
/// Of what may have changed, after whatever stands there of before (wcc_data).
void skip_changes(XdrReader& in);

/// Of READ, up to the bytes themselves: `length` of them follow.
struct ReadHead {
    std::uint32_t status = 0;
    std::optional<FileAttributes3> attributes;
    std::uint32_t length = 0;
    bool at_end = false;
};
ReadHead read_read_head(XdrReader& in);

/// The longest that a reply to READ can be before its bytes: RPC head with a verifier of 400 bytes, and the
/// rest.
inline constexpr std::size_t kLongestReadHead = 4 + 4 + 4 + 8 + 400 + 4 + 4 + 4 + 84 + 12;

struct LookupReply {
    std::uint32_t status = 0;
    Handle handle;
    std::optional<FileAttributes3> attributes;
};
LookupReply read_lookup(XdrReader& in);

/// The same as LOOKUP's and GETATTR's, with all that stat(2) has. `handle`: of LOOKUP.
struct StatReply {
    std::uint32_t status = 0;
    Handle handle;
    std::optional<struct stat> attributes;
};
StatReply read_lookup_stat(XdrReader& in);
StatReply read_getattr_stat(XdrReader& in);

struct GetattrReply {
    std::uint32_t status = 0;
    FileAttributes3 attributes;
};
GetattrReply read_getattr(XdrReader& in);

struct ReadlinkReply {
    std::uint32_t status = 0;
    std::string target;
};
ReadlinkReply read_readlink(XdrReader& in);

struct DirectoryEntry3 {
    std::string name;
    std::uint64_t file_id = 0, cookie = 0;
    std::optional<struct stat> status;
    Handle handle;  ///< empty: not told
};
struct ReaddirplusReply {
    std::uint32_t status = 0;
    std::string verifier;
    std::vector<DirectoryEntry3> entries;
    bool at_end = false;
};
ReaddirplusReply read_readdirplus(XdrReader& in);
/// READDIR brings names alone: neither `status` nor `handle`.
ReaddirplusReply read_readdir(XdrReader& in);

struct FsinfoReply {
    std::uint32_t status = 0;
    std::uint32_t read_most = 0, read_preferred = 0, write_most = 0, write_preferred = 0, list_preferred = 0;
    std::uint64_t largest_file = 0;
};
FsinfoReply read_fsinfo(XdrReader& in);

struct MountReply {
    std::uint32_t status = 0;
    Handle handle;
    std::vector<std::uint32_t> flavors;
};
MountReply read_mount(XdrReader& in);

/// The paths that a server exports.
std::vector<std::string> read_exports(XdrReader& in);

}  // namespace tierfs::nfs
