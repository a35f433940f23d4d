// backends/: where bytes come from. Origin is the interface; dir/, nfs/ and s3/ implement it; open_origin
// picks by URL. tiering/ and fs/ call it. http/ is shared by implementations; disk/ and extent/ serve caches.
#pragma once

#include <sys/statvfs.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/origin/reachability.hpp"
#include "config/base/result.hpp"
#include "config/settings.hpp"

namespace tierfs {

enum class ObjectKind : std::uint8_t { file = 1, directory = 2, symlink = 3 };

/// Attributes of one name at the origin. `version` names the bytes: ETag on S3,
/// "ino:size:mtime_ns:ctime_ns" for directories' files; empty for directories. Two equal versions of a
/// key mean equal bytes.
struct Attributes {
    ObjectKind kind = ObjectKind::file;
    std::uint64_t size = 0;
    std::int64_t mtime_ns = 0;
    std::int64_t ctime_ns = 0;
    std::uint32_t mode = 0444;  ///< permission bits only (07777)
    std::uint32_t acl = 0;  ///< kHasAcl | what its mask lets the group have (0070); 0: no access control list
    std::uint32_t uid = 0, gid = 0;
    std::uint32_t nlink = 1;
    std::uint64_t link = 0;  ///< of a file with several names, the same for all (link_of); 0: it has one name
    bool archived = false;   ///< S3 storage class that must be restored first: reads fail with EACCES at once
    std::string version;
};

/// Of Attributes::acl. With a list `mode` has what the owning group itself may do; who checks the list has to
/// show the mask in its place, as stat(2) does.
inline constexpr std::uint32_t kHasAcl = 01;
inline constexpr std::uint32_t kAclMask = 0070;

/// Access control lists of a source: those of a file system that has them count by themselves, where its root
/// has one (`used`), or where a setting says so (`possible`).
enum class Acls : std::uint8_t { none, possible, used };

/// Of an inode of a file system, never that of a node: those are small numbers. The finaliser is that of SplitMix64 (Steele, Lea,
/// Flood, 2014).
constexpr std::uint64_t link_of(std::uint64_t device, std::uint64_t inode) {
    constexpr std::uint64_t kMark = std::uint64_t{1} << 62U;
    std::uint64_t mixed = inode + device * 0x9E3779B97F4A7C15U;
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
    return ((mixed ^ (mixed >> 31U)) & (kMark - 1)) | kMark;
}

struct DirectoryEntry {
    std::string name;  ///< one path component: never empty, ".", "..", no '/', no NUL, at most 255 bytes
    Attributes attributes;
};

/// One page of a directory. Entries come in the byte order of their names within a page and over pages, but a
/// directory "a" of an object store may come apart from a file "a" (keys `a`, `a-b`, `a/c`): who merges pages
/// lets the directory win and counts the file as hidden ("file beside a directory of the same name").
struct ListPage {
    std::vector<DirectoryEntry> entries;
    std::string next;                             ///< pass to the next call; empty: that was the last page
    std::map<std::string, std::uint64_t> hidden;  ///< reason -> number of keys of this page that are no paths
    /// How old it is as an answer: it may have been read with the pages before it.
    std::chrono::nanoseconds age{0};
};

/// Demand: a reader waits. Prefetch: a reader will want it soon. Fill: bulk, in the background.
enum class Priority : std::uint8_t { demand, prefetch, fill };

/// One read of one version. `path` is relative to the origin's root, components joined by '/', no leading
/// '/'.
struct OriginRead {
    std::string path;
    /// Pinned: other bytes are never returned; ESTALE when the object changed. Empty: whatever is there, for
    /// who verifies it.
    std::string version;
    std::uint64_t offset = 0;
    std::span<std::byte> destination;  ///< stays valid until `done`; filled whole, or the read fails
    Priority priority = Priority::demand;
    /// Of the whole object, as it was looked up. ESTALE where the origin's answer to the read says another
    /// one: a listing may lie. Empty: not known.
    std::optional<std::uint64_t> object_size;
    /// Called exactly once, on any thread, possibly before read() returns. Must not block. ENOENT: gone;
    /// ESTALE: another version is there now; EACCES; ETIMEDOUT: the deadline passed; EIO: the rest.
    std::function<void(Result<void>)> done;
};

/// Counters since the start; see `tierfs status --json`, member "origin".
struct OriginStats {
    std::uint64_t get = 0, head = 0, list = 0, put = 0, remove = 0,
                  other = 0;  ///< requests sent, retries and hedges included
    std::uint64_t bytes_read = 0, bytes_written = 0, retries = 0, throttled = 0, errors = 0;
    std::uint64_t hedged = 0, hedges_won = 0;  ///< reads sent a second time; of these, answered first
    Reachability::State reach;                 ///< now
};

class PosixOrigin;
class WritableOrigin;

/// The source of truth of a mount.
///
/// Thread-safe. `ping`, `stat`, `statistics`, `xattr`, `xattr_names`, `acls`, `list` and `read_link` block the caller for at most the deadline of the settings
/// (plus a second); `read` does not block. Errors: ENOENT, EACCES (credentials, permissions, archived),
/// ETIMEDOUT, ENOTDIR, EIO; the message says which request to which endpoint failed and why, without secrets.
class Origin {
  public:
    virtual ~Origin() = default;

    /// Identity of the source, the same over mounts and spellings: "s3://endpoint-host/bucket/prefix",
    /// "nfs://host/export/path", "dir:/real/path". Part of content ids and names the folder of the source in
    /// a cache.
    [[nodiscard]] virtual std::string identity() const = 0;

    /// For status: "s3", "nfs" or "directory".
    [[nodiscard]] virtual std::string kind() const = 0;

    /// Asked once before mounting: does the source exist, may it be listed? The error is shown to who mounts.
    virtual Result<void> check() = 0;

    /// One request that asks for little: whether the source answers.
    virtual Result<void> ping() {
        return stat("").map([](const Attributes&) {});
    }

    /// Of the file system that the source is, for df. EOPNOTSUPP where it has no measure (has_statistics).
    virtual Result<struct statvfs> statistics() { return fail(EOPNOTSUPP, "the source has no measure"); }
    [[nodiscard]] virtual bool has_statistics() const { return false; }

    /// An extended attribute of a path, and the names of all: those of users ("user."), and access control lists as
    /// "system.posix_acl_access" and "system.posix_acl_default" (acl(5)). ENODATA: there is none of that name.
    /// EOPNOTSUPP where there are none at all (has_xattrs).
    virtual Result<std::string> xattr(const std::string& /*path*/, const std::string& /*name*/) {
        return fail(EOPNOTSUPP, "the source has no extended attributes");
    }
    virtual Result<std::vector<std::string>> xattr_names(const std::string& /*path*/) {
        return fail(EOPNOTSUPP, "the source has no extended attributes");
    }
    [[nodiscard]] virtual bool has_xattrs() const { return false; }
    virtual Result<Acls> acls() { return Acls::none; }

    /// Attributes of a path; "" is the root. A symlink is not followed.
    virtual Result<Attributes> stat(const std::string& path) = 0;

    /// A page of a directory; `token` empty for the first. ENOENT or ENOTDIR when it is none.
    virtual Result<ListPage> list(const std::string& path, const std::string& token) = 0;

    virtual Result<std::string> read_link(const std::string& path) = 0;

    virtual void read(OriginRead request) = 0;

    /// Where objects are written (backends/origin/writable_origin.hpp); lives as long as this. Null: nowhere.
    virtual WritableOrigin* writable() { return nullptr; }

    /// Names and files as POSIX has them (backends/origin/posix_origin.hpp), for writable mounts; lives as
    /// long as this. Null: the origin cannot carry them.
    virtual PosixOrigin* posix() { return nullptr; }

    [[nodiscard]] virtual OriginStats stats() const = 0;

    /// About how many stat() of names in a directory cost as much as listing it: who asks for more of them
    /// lists it instead. A guess, made without asking anybody; of a listing whose length is not known, its
    /// first page. 0: listing never pays.
    [[nodiscard]] virtual std::uint64_t stats_worth_listing(const std::string& directory) const = 0;

    /// Fails what is under way with ECANCELED (each `done` is still called, before this returns, but for
    /// reads that the source holds, see is_held) and refuses new reads.
    virtual void stop() = 0;

    /// After stop(): threads are held inside the kernel by a source that does not answer. They use nothing
    /// but what they own and the destinations of their reads; a process that has them ends by _exit.
    [[nodiscard]] virtual bool is_held() const { return false; }
};

/// Opens the origin of settings.source: s3://BUCKET[/PREFIX], nfs://HOST/EXPORT[/PATH], an absolute
/// directory, or file:///DIR. Does not send anything yet (see check). EINVAL with what is allowed for another
/// URL.
Result<std::unique_ptr<Origin>> open_origin(const Settings& settings);

}  // namespace tierfs
