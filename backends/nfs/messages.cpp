#include "backends/nfs/messages.hpp"

#include <sys/sysmacros.h>

#include <cerrno>
#include <iterator>

#include "backends/origin/young_version.hpp"
#include "config/base/time.hpp"

namespace tierfs::nfs {
namespace {

constexpr std::uint32_t kRpcVersion = 2, kAuthNone = 0, kAuthSys = 1;
constexpr std::size_t kMostAuth = 400;  // RFC 5531, 8.2
constexpr std::size_t kLongestName = 4096, kLongestLink = 4096, kLongestPath = 1024;
constexpr std::size_t kMostGroups = 16, kMostExports = 4096, kMostFlavors = 64;

constexpr blksize_t kBlockSize = 1 << 20;  // what st_blksize recommends

timespec read_time(XdrReader& in) {
    const auto seconds = in.u32();
    return {static_cast<time_t>(seconds), static_cast<long>(in.u32())};
}

ReaddirplusReply read_names(XdrReader& in, bool with_attributes) {
    ReaddirplusReply reply;
    reply.status = in.u32();
    read_post_attributes(in);
    if (reply.status != kOk) return reply;
    reply.verifier = in.fixed(8);
    while (in.flag()) {
        DirectoryEntry3 entry;
        entry.file_id = in.u64();
        entry.name = in.opaque(kLongestName);
        entry.cookie = in.u64();
        if (with_attributes && in.flag()) entry.status = read_stat(in);
        if (with_attributes && in.flag()) entry.handle = in.opaque(kLongestHandle);
        if (!in.ok()) break;
        reply.entries.push_back(std::move(entry));
    }
    reply.at_end = in.flag();
    return reply;
}

}  // namespace

int to_errno(std::uint32_t status) {
    switch (status) {
        case 1:   // PERM
        case 13:  // ACCES
            return EACCES;
        case kNoEntry:
            return ENOENT;
        case 17:
            return EEXIST;
        case 18:
            return EXDEV;
        case 20:
            return ENOTDIR;
        case 21:
            return EISDIR;
        case 22:
            return EINVAL;
        case 27:
            return EFBIG;
        case 28:
            return ENOSPC;
        case 30:
            return EROFS;
        case 31:
            return EMLINK;
        case 63:
            return ENAMETOOLONG;
        case 66:
            return ENOTEMPTY;
        case 69:
            return EDQUOT;
        case kStale:
        case kBadHandle:
            return ESTALE;
        case kNotSupported:
            return EOPNOTSUPP;
        case kJukebox:
            return ETIMEDOUT;
        default:
            return EIO;
    }
}

std::string status_name(std::uint32_t status) {
    struct Named {
        std::uint32_t status;
        std::string_view name;
    };
    static constexpr Named kNames[] = {{1, "PERM"},         {2, "NOENT"},           {5, "IO"},
                                       {6, "NXIO"},         {13, "ACCES"},          {17, "EXIST"},
                                       {18, "XDEV"},        {19, "NODEV"},          {20, "NOTDIR"},
                                       {21, "ISDIR"},       {22, "INVAL"},          {27, "FBIG"},
                                       {28, "NOSPC"},       {30, "ROFS"},           {31, "MLINK"},
                                       {63, "NAMETOOLONG"}, {66, "NOTEMPTY"},       {69, "DQUOT"},
                                       {70, "STALE"},       {71, "REMOTE"},         {10001, "BADHANDLE"},
                                       {10002, "NOT_SYNC"}, {10003, "BAD_COOKIE"},  {10004, "NOTSUPP"},
                                       {10005, "TOOSMALL"}, {10006, "SERVERFAULT"}, {10007, "BADTYPE"},
                                       {10008, "JUKEBOX"}};
    for (const auto& named : kNames) {
        if (named.status == status) return "NFS3ERR_" + std::string(named.name);
    }
    return "NFS status " + std::to_string(status);
}

std::string version_of(const FileAttributes3& file) {
    const auto& a = file.attributes;
    return std::to_string(file.file_id) + ':' + std::to_string(a.size) + ':' + std::to_string(a.mtime_ns) +
           ':' + std::to_string(a.ctime_ns);
}

std::string shown_version_of(const FileAttributes3& file) {
    return shown_version(version_of(file), file.attributes.ctime_ns, wall_clock_ns(), kRemoteTick);
}

std::string auth_sys(std::string_view machine, std::uint32_t uid, std::uint32_t gid,
                     const std::vector<std::uint32_t>& groups) {
    XdrWriter out;
    out.u32(0);  // stamp
    out.opaque(machine.substr(0, 255));
    out.u32(uid);
    out.u32(gid);
    const auto count = std::min(groups.size(), kMostGroups);
    out.u32(static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) out.u32(groups[i]);
    return out.take();
}

std::string make_call(std::uint32_t xid, const Procedure& procedure, std::string_view credential,
                      std::string_view arguments) {
    XdrWriter out;
    out.u32(xid);
    out.u32(0);  // CALL
    out.u32(kRpcVersion);
    out.u32(procedure.program);
    out.u32(procedure.version);
    out.u32(procedure.number);
    out.u32(kAuthSys);
    out.opaque(credential);
    out.u32(kAuthNone);
    out.u32(0);
    return out.take().append(arguments);
}

std::string handle_arguments(std::string_view handle) {
    XdrWriter out;
    out.opaque(handle);
    return out.take();
}

std::string lookup_arguments(std::string_view directory, std::string_view name) {
    XdrWriter out;
    out.opaque(directory);
    out.opaque(name);
    return out.take();
}

std::string read_arguments(std::string_view handle, std::uint64_t offset, std::uint32_t count) {
    XdrWriter out;
    out.opaque(handle);
    out.u64(offset);
    out.u32(count);
    return out.take();
}

std::string readdirplus_arguments(std::string_view directory, std::uint64_t cookie, std::string_view verifier,
                                  std::uint32_t names, std::uint32_t bytes) {
    XdrWriter out;
    out.opaque(directory);
    out.u64(cookie);
    out.fixed(verifier);
    out.u32(names);
    out.u32(bytes);
    return out.take();
}

std::string readdir_arguments(std::string_view directory, std::uint64_t cookie, std::string_view verifier,
                              std::uint32_t bytes) {
    XdrWriter out;
    out.opaque(directory);
    out.u64(cookie);
    out.fixed(verifier);
    out.u32(bytes);
    return out.take();
}

Acceptance read_acceptance(XdrReader& in) {
    if (in.u32() != 1) in.refuse();  // REPLY
    const auto denied = in.u32();
    if (denied > 1) in.refuse();
    if (!in.ok()) return {EIO, "no reply"};
    if (denied == 1) {
        const auto why = in.u32();  // 0: RPC version; 1: authentication
        if (!in.ok() || why > 1) in.refuse();
        return why == 1 ? Acceptance{EACCES, "the server refuses the credential (AUTH_SYS)"}
                        : Acceptance{EIO, "the server refuses this version of RPC"};
    }
    in.u32();  // the verifier's flavour
    in.opaque(kMostAuth);
    static constexpr std::string_view kProblems[] = {"",
                                                     "the server does not offer this program",
                                                     "the server does not offer this version of the program",
                                                     "the server does not offer this procedure",
                                                     "the server cannot read the call",
                                                     "the server has a problem of its own"};
    const auto status = in.u32();
    if (status >= std::size(kProblems)) in.refuse();
    if (!in.ok()) return {EIO, "no reply"};
    if (status == 0) return {};
    return {status <= 3 ? EOPNOTSUPP : EIO, kProblems[status]};
}

struct stat read_stat(XdrReader& in) {
    static constexpr mode_t kTypes[] = {0, S_IFREG, S_IFDIR, S_IFBLK, S_IFCHR, S_IFLNK, S_IFSOCK, S_IFIFO};
    struct stat status {};
    const auto type = in.u32();
    if (type < 1 || type >= std::size(kTypes)) {
        in.refuse();
        return status;
    }
    status.st_mode = (in.u32() & 07777U) | kTypes[type];
    status.st_nlink = in.u32();
    status.st_uid = in.u32();
    status.st_gid = in.u32();
    const auto size = in.u64();
    const auto used = std::min<std::uint64_t>(in.u64(), INT64_MAX);
    const auto major = in.u32();
    status.st_rdev = ::makedev(major, in.u32());
    status.st_dev = in.u64();
    status.st_ino = in.u64();
    status.st_atim = read_time(in);
    status.st_mtim = read_time(in);
    status.st_ctim = read_time(in);
    if (size > INT64_MAX) in.refuse();
    status.st_size = static_cast<off_t>(size);
    status.st_blocks = static_cast<blkcnt_t>(used / 512 + (used % 512 != 0 ? 1 : 0));
    status.st_blksize = kBlockSize;
    return status;
}

FileAttributes3 read_attributes(XdrReader& in) {
    return to_attributes(read_stat(in));
}

FileAttributes3 to_attributes(const struct stat& status) {
    FileAttributes3 file;
    auto& a = file.attributes;
    a.kind = S_ISDIR(status.st_mode)   ? ObjectKind::directory
             : S_ISLNK(status.st_mode) ? ObjectKind::symlink
                                       : ObjectKind::file;
    file.is_special = !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode) && !S_ISLNK(status.st_mode);
    a.mode = status.st_mode & 07777U;
    a.nlink = static_cast<std::uint32_t>(status.st_nlink);
    a.uid = status.st_uid;
    a.gid = status.st_gid;
    a.size = a.kind == ObjectKind::directory ? 0 : static_cast<std::uint64_t>(status.st_size);
    file.file_id = status.st_ino;
    if (a.kind == ObjectKind::file && a.nlink > 1) a.link = link_of(status.st_dev, status.st_ino);
    a.mtime_ns = to_ns(status.st_mtim);
    a.ctime_ns = to_ns(status.st_ctim);
    return file;
}

void skip_changes(XdrReader& in) {
    if (in.flag()) in.fixed(24);  // size, mtime, ctime of before
    read_post_attributes(in);
}

std::optional<FileAttributes3> read_post_attributes(XdrReader& in) {
    if (!in.flag()) return std::nullopt;
    return read_attributes(in);
}

ReadHead read_read_head(XdrReader& in) {
    ReadHead reply;
    reply.status = in.u32();
    reply.attributes = read_post_attributes(in);
    if (reply.status != kOk) return reply;
    const auto count = in.u32();
    reply.at_end = in.flag();
    reply.length = in.u32();
    if (reply.length != count) in.refuse();
    return reply;
}

LookupReply read_lookup(XdrReader& in) {
    auto found = read_lookup_stat(in);
    LookupReply reply{found.status, std::move(found.handle), std::nullopt};
    if (found.attributes) reply.attributes = to_attributes(*found.attributes);
    return reply;
}

StatReply read_lookup_stat(XdrReader& in) {
    StatReply reply;
    reply.status = in.u32();
    if (reply.status == kOk) {
        reply.handle = in.opaque(kLongestHandle);
        if (reply.handle.empty()) in.refuse();
        if (in.flag()) reply.attributes = read_stat(in);
    }
    read_post_attributes(in);  // of the directory
    return reply;
}

StatReply read_getattr_stat(XdrReader& in) {
    StatReply reply;
    reply.status = in.u32();
    if (reply.status == kOk) reply.attributes = read_stat(in);
    return reply;
}

GetattrReply read_getattr(XdrReader& in) {
    GetattrReply reply;
    reply.status = in.u32();
    if (reply.status == kOk) reply.attributes = read_attributes(in);
    return reply;
}

ReadlinkReply read_readlink(XdrReader& in) {
    ReadlinkReply reply;
    reply.status = in.u32();
    read_post_attributes(in);
    if (reply.status == kOk) reply.target = in.opaque(kLongestLink);
    return reply;
}

ReaddirplusReply read_readdirplus(XdrReader& in) {
    return read_names(in, true);
}

ReaddirplusReply read_readdir(XdrReader& in) {
    return read_names(in, false);
}

FsinfoReply read_fsinfo(XdrReader& in) {
    FsinfoReply reply;
    reply.status = in.u32();
    read_post_attributes(in);
    if (reply.status != kOk) return reply;
    reply.read_most = in.u32();
    reply.read_preferred = in.u32();
    in.u32();  // multiple
    reply.write_most = in.u32();
    reply.write_preferred = in.u32();
    in.u32();  // multiple
    reply.list_preferred = in.u32();
    reply.largest_file = in.u64();
    return reply;
}

MountReply read_mount(XdrReader& in) {
    MountReply reply;
    reply.status = in.u32();
    if (reply.status != kOk) return reply;
    reply.handle = in.opaque(kLongestHandle);
    if (reply.handle.empty()) in.refuse();
    const auto count = in.u32();
    if (count > kMostFlavors) in.refuse();
    for (std::uint32_t i = 0; in.ok() && i < count; ++i) reply.flavors.push_back(in.u32());
    return reply;
}

std::vector<std::string> read_exports(XdrReader& in) {
    std::vector<std::string> paths;
    while (in.flag()) {
        std::string path(in.opaque(kLongestPath));
        while (in.flag()) in.opaque(kLongestPath);  // who may mount it
        if (!in.ok() || paths.size() >= kMostExports) break;
        paths.push_back(std::move(path));
    }
    return paths;
}

}  // namespace tierfs::nfs
