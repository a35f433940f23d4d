#include "backends/nfs/messages.hpp"

#include <cerrno>

namespace tierfs::nfs {
namespace {

constexpr std::uint32_t kRpcVersion = 2, kAuthNone = 0, kAuthSys = 1;
constexpr std::size_t kMostAuth = 400;  // RFC 5531, 8.2
constexpr std::size_t kLongestName = 4096, kLongestLink = 4096, kLongestPath = 1024;
constexpr std::size_t kMostGroups = 16, kMostExports = 4096, kMostFlavors = 64;

std::int64_t read_time(XdrReader& in) {
    const std::int64_t seconds = in.u32();
    return seconds * 1'000'000'000 + in.u32();
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

FileAttributes3 read_attributes(XdrReader& in) {
    FileAttributes3 file;
    auto& a = file.attributes;
    const auto type = in.u32();
    if (type < 1 || type > 7) in.refuse();
    a.kind = type == 2 ? ObjectKind::directory : type == 5 ? ObjectKind::symlink : ObjectKind::file;
    file.is_special = type != 1 && type != 2 && type != 5;
    a.mode = in.u32() & 07777U;
    a.nlink = in.u32();
    a.uid = in.u32();
    a.gid = in.u32();
    a.size = in.u64();
    in.u64();  // used
    in.u64();  // rdev
    in.u64();  // fsid
    file.file_id = in.u64();
    in.u64();  // atime
    a.mtime_ns = read_time(in);
    a.ctime_ns = read_time(in);
    if (a.size > INT64_MAX) in.refuse();
    if (a.kind == ObjectKind::directory) a.size = 0;
    return file;
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
    LookupReply reply;
    reply.status = in.u32();
    if (reply.status == kOk) {
        reply.handle = in.opaque(kLongestHandle);
        if (reply.handle.empty()) in.refuse();
        reply.attributes = read_post_attributes(in);
    }
    read_post_attributes(in);  // of the directory
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
    ReaddirplusReply reply;
    reply.status = in.u32();
    read_post_attributes(in);
    if (reply.status != kOk) return reply;
    reply.verifier = in.fixed(8);
    while (in.flag()) {
        DirectoryEntry3 entry;
        in.u64();  // file id: the attributes have it too
        entry.name = in.opaque(kLongestName);
        entry.cookie = in.u64();
        entry.attributes = read_post_attributes(in);
        if (in.flag()) entry.handle = in.opaque(kLongestHandle);
        if (!in.ok()) break;
        reply.entries.push_back(std::move(entry));
    }
    reply.at_end = in.flag();
    return reply;
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
