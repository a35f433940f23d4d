// Names and files of an origin as POSIX has them: what a writable mount is made of. backends/dir/ and
// backends/nfs/ and backends/s3/readwrite/ implement it.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "config/base/time.hpp"

namespace tierfs {

/// What tells one file of the origin from all others, for as long as both exist: device and inode number; and
/// when it was made (nanoseconds since 1970; 0: not known), since inode numbers are used again.
struct PosixIdentity {
    std::uint64_t device = 0, inode = 0;
    std::int64_t born_ns = 0;
    friend bool operator==(const PosixIdentity&, const PosixIdentity&) = default;
};

class PosixNode;

struct PosixAttributes {
    struct stat status {};
    std::int64_t born_ns = 0;
    std::string version;  ///< of a regular file's bytes: as Attributes::version; else empty
    /// Whether two equal versions mean equal bytes.
    enum class Trust : std::uint8_t {
        by_time,  ///< once the last change is some time ago
        always,
        none,  ///< the bytes can be read through PosixFile alone
    } trust = Trust::by_time;
    double age_s = 0;  ///< seconds since they were so: nobody may keep them for as long as new ones
    /// Of a directory, where it can be reached without its name and at no cost; else null.
    std::shared_ptr<const PosixNode> node;
    [[nodiscard]] PosixIdentity identity() const { return {status.st_dev, status.st_ino, born_ns}; }
};

/// A file, directory or anything else at the origin. While somebody holds it, it stays what it is, whatever
/// becomes of its names.
class PosixNode {
  public:
    virtual ~PosixNode() = default;
};
using PosixNodePtr = std::shared_ptr<const PosixNode>;

/// Whom something new is to belong to. A directory with the set-group-ID bit gives its own group instead.
struct Caller {
    std::uint32_t uid = 0, gid = 0;
    std::uint32_t umask = 0;  ///< an access control list that the directory hands down is used instead of it
};

class PosixLocks;
using PosixLocksPtr = std::shared_ptr<PosixLocks>;

/// A regular file that is open. Thread-safe; calls block.
class PosixFile {
  public:
    virtual ~PosixFile() = default;
    /// Fewer bytes than asked for: the end of the file.
    virtual Result<std::size_t> read(std::span<std::byte> destination, std::uint64_t offset) = 0;
    /// Writes all of it, or fails; then some of it may have been written. The set-user-ID and set-group-ID
    /// bits are cleared.
    virtual Result<void> write(std::span<const std::byte> bytes, std::uint64_t offset) = 0;
    virtual Result<void> resize(std::uint64_t size) = 0;
    /// `mode`: FALLOC_FL_* of fallocate(2).
    virtual Result<void> allocate(int mode, std::uint64_t offset, std::uint64_t length) = 0;
    /// `whence`: SEEK_DATA or SEEK_HOLE of lseek(2).
    virtual Result<std::uint64_t> seek(std::uint64_t offset, int whence) = 0;
    /// Copies within the origin, from this file to another; as many bytes as copy_file_range(2) does.
    virtual Result<std::uint64_t> copy(std::uint64_t offset, PosixFile& to, std::uint64_t to_offset,
                                       std::uint64_t length) = 0;
    /// Durable: fsync(2); `data_only`: fdatasync(2).
    virtual Result<void> sync(bool data_only) = 0;
    /// What close(2) says of earlier writes, and the file stays open.
    virtual Result<void> flush() = 0;
    /// Whether nothing has been written since it was made or cut to nothing, so that flush() would show others
    /// an empty file: not to be called while a descriptor is left that will bring the content.
    [[nodiscard]] virtual bool awaits_content() { return false; }
    virtual Result<PosixAttributes> attributes() = 0;
    /// The bytes that it had are gone from the origin, and nobody has seen any of them: it becomes what is there
    /// now under its name. `asked`: so many of its bytes, from the first on, are being asked for by one request,
    /// which must be all of them if there are fewer now; kAnySize: its size is asked for. ESTALE: it cannot.
    static constexpr std::uint64_t kAnySize = UINT64_MAX;
    struct Renewal {
        std::uint64_t old_size = 0, size = 0;
        bool is_other = true;  ///< false: it is what it was; read it again
    };
    virtual Result<Renewal> renew(std::uint64_t /*asked*/) {
        return fail(ESTALE, "another file has taken its place");
    }
    /// Where locks are taken on it (backends/origin/posix_locks.hpp); may live longer than this.
    /// `for_writing`: for exclusive ones, too. Only where PosixOrigin::has_locks().
    virtual Result<PosixLocksPtr> open_locks(bool /*for_writing*/) {
        return fail(ENOLCK, "the origin has no locks");
    }
    /// Where it is a file of this machine that the kernel may read and write by itself, its descriptor, open as it was asked
    /// for; -1: it is none.
    [[nodiscard]] virtual int descriptor() const { return -1; }
    /// The kernel answers reads and writes of descriptor() from now on, until the file is closed by all. False: it must not.
    virtual bool pass_through(int /*descriptor*/) { return true; }
    /// Whether what the kernel and mappings write counts when it is looked at: then this lives until the kernel has given
    /// the file up, and sees by itself what mappings do after that. Else it goes before, and its times must tell.
    [[nodiscard]] virtual bool looks_itself() const { return false; }
};
using PosixFilePtr = std::shared_ptr<PosixFile>;

struct PosixEntry {
    std::string name;
    std::uint64_t inode = 0;
    unsigned char type = 0;                     ///< DT_* of readdir(3)
    std::int64_t next = 0;                      ///< where to go on after this entry
    std::optional<PosixAttributes> attributes;  ///< where they come along with the names
};

/// A directory that is open for reading, "." and ".." included. Thread-safe; calls block.
class PosixDirectory {
  public:
    virtual ~PosixDirectory() = default;
    /// The entry after that place (0: the first); nothing: the end.
    virtual Result<std::optional<PosixEntry>> read(std::int64_t after) = 0;
    virtual Result<void> sync(bool data_only) = 0;
};
using PosixDirectoryPtr = std::shared_ptr<PosixDirectory>;

/// A file that was just made and is open.
struct PosixCreated {
    PosixFilePtr file;
    PosixAttributes attributes;
    PosixNodePtr node;  ///< never null: others may take its last name away while it is open
};

/// What a write-back mount has acknowledged, and is yet to bring to the origin.
struct PosixQueue {
    std::uint64_t entries = 0, bytes = 0;
    std::uint64_t running = 0;    ///< of these, at the moment
    std::uint64_t conflicts = 0;  ///< what was kept beside another host's
    std::uint64_t done = 0;
    std::uint64_t done_to = 0;  ///< all up to this number: see PosixOrigin::hurry
    double oldest_s = 0;        ///< since it was acknowledged, also by an earlier daemon
    std::uint64_t room = 0;     ///< bytes, until writers wait
    std::string error = {};     ///< of what is tried again; empty: all goes well
};

struct PosixStats {
    std::uint64_t reads = 0, writes = 0, removes = 0, lookups = 0, lists = 0, others = 0;  ///< requests
    std::uint64_t bytes_read = 0, bytes_written = 0, errors = 0;
    /// Of origins that have what was written only when a file is synced or closed: what they do not have yet,
    /// since when they lack the oldest of it, and what could not be brought there (counted in `errors`).
    std::uint64_t dirty_bytes = 0;
    double oldest_dirty_s = 0;
    /// Keys that listings could not show as files, by the reason.
    std::map<std::string, std::uint64_t> hidden = {};
    std::optional<PosixQueue> queue = {};
};

/// What Origin::posix() gives where names and files behave as in POSIX.
///
/// Nothing checks permissions: that is for the kernel to do, with the attributes that it is given. Names are
/// single components. No symbolic link is followed and nothing outside the origin is reached. Thread-safe;
/// calls block, and a source that hangs holds them. Errors: the errno of the system call that failed, for
/// system calls that take a name the usual ones of open(2), rename(2) and so on; ESTALE for a node that is
/// not there any more.
class PosixOrigin {
  public:
    virtual ~PosixOrigin() = default;

    [[nodiscard]] virtual PosixNodePtr root() = 0;
    /// Of a name; a symbolic link is not followed. ENOENT.
    virtual Result<PosixAttributes> look_up(const PosixNode& directory, const std::string& name) = 0;
    virtual Result<PosixNodePtr> hold(const PosixNode& directory, const std::string& name) = 0;
    virtual Result<PosixAttributes> attributes(const PosixNode& node) = 0;
    /// PosixFile::renew of a node that is open.
    virtual Result<PosixFile::Renewal> renew(const PosixNode& /*node*/, std::uint64_t /*asked*/) {
        return fail(ESTALE, "another file has taken its place");
    }
    virtual Result<std::string> read_link(const PosixNode& node) = 0;

    /// Makes a file and never opens one that is there: that is EEXIST with O_EXCL, else ESTALE, since whether
    /// the caller may open it is still to be checked. `mode`: with the bits of the umask; `flags`: of
    /// open(2), of which O_ACCMODE, O_EXCL and O_SYNC count.
    virtual Result<PosixCreated> create(const PosixNode& directory, const std::string& name, int flags,
                                        mode_t mode, const Caller& caller) = 0;
    /// The same without a name (O_TMPFILE of open(2)): add_name gives it one, else it goes with its last close. Where it
    /// would be made. The result has the node.
    virtual Result<PosixCreated> make_nameless(const PosixNode& directory, int flags, mode_t mode,
                                               const Caller& caller) = 0;
    virtual Result<void> make_directory(const PosixNode& directory, const std::string& name, mode_t mode,
                                        const Caller& caller) = 0;
    /// `mode` with the file type: a FIFO, a socket, a device, or an empty regular file.
    virtual Result<void> make_node(const PosixNode& directory, const std::string& name, mode_t mode,
                                   dev_t device, const Caller& caller) = 0;
    virtual Result<void> make_link(const PosixNode& directory, const std::string& name,
                                   const std::string& target, const Caller& caller) = 0;
    /// Another name for a file.
    virtual Result<void> add_name(const PosixNode& node, const PosixNode& directory,
                                  const std::string& name) = 0;
    virtual Result<void> remove(const PosixNode& directory, const std::string& name, bool is_directory) = 0;
    /// `flags`: RENAME_NOREPLACE, RENAME_EXCHANGE of renameat2(2).
    virtual Result<void> rename(const PosixNode& from, const std::string& name, const PosixNode& to,
                                const std::string& new_name, unsigned flags) = 0;

    virtual Result<PosixFilePtr> open(const PosixNode& node, int flags) = 0;
    virtual Result<PosixDirectoryPtr> open_directory(const PosixNode& node) = 0;
    /// A file that another process had open by that descriptor, and its node. ENOTSUP: files are none of this machine.
    struct Adopted {
        PosixFilePtr file;
        PosixNodePtr node;
    };
    virtual Result<Adopted> adopt(FileDescriptor /*file*/) {
        return fail(ENOTSUP, "open files cannot be taken over from another process");
    }

    virtual Result<void> set_mode(const PosixNode& node, mode_t mode) = 0;
    /// (uid_t)-1, (gid_t)-1: as it is.
    virtual Result<void> set_owner(const PosixNode& node, uid_t uid, gid_t gid) = 0;
    /// Last access and last modification; UTIME_NOW and UTIME_OMIT as in utimensat(2).
    virtual Result<void> set_times(const PosixNode& node, const struct timespec& access,
                                   const struct timespec& modification) = 0;
    virtual Result<void> resize(const PosixNode& node, std::uint64_t size) = 0;

    /// `value` empty: only the size is asked for. Returns the size. ENODATA, ERANGE, EOPNOTSUPP.
    virtual Result<std::size_t> get_xattr(const PosixNode& node, const std::string& name,
                                          std::span<char> value) = 0;
    virtual Result<std::size_t> list_xattrs(const PosixNode& node, std::span<char> names) = 0;
    /// `flags`: XATTR_CREATE, XATTR_REPLACE.
    virtual Result<void> set_xattr(const PosixNode& node, const std::string& name,
                                   std::span<const char> value, int flags) = 0;
    virtual Result<void> remove_xattr(const PosixNode& node, const std::string& name) = 0;

    virtual Result<struct statvfs> statistics() = 0;
    /// Whether access control lists (acl(5)) can be set at all.
    [[nodiscard]] virtual bool has_acls() const = 0;
    /// Whether locks are the origin's, so that they hold against those who use it by other ways.
    [[nodiscard]] virtual bool has_locks() const { return false; }
    /// Whether calls are system calls or single requests: they may be many, and hang. Else each is made of
    /// requests that have deadlines of their own, of which some need many.
    [[nodiscard]] virtual bool answers_cheaply() const { return true; }
    /// Whether calls, and the end of a file or a node, may wait for answers that threads of the origin bring:
    /// then none of those threads may call (Delivery).
    [[nodiscard]] virtual bool waits_for_answers() const { return !answers_cheaply(); }
    /// A time that the origin's clock has reached, by which times of change are told from one another:
    /// nanoseconds since 1970.
    [[nodiscard]] virtual std::int64_t clock_ns() const { return wall_clock_ns(); }
    /// Whether to hold a node costs memory alone, no descriptor: then what is open is held.
    [[nodiscard]] virtual bool holds_for_nothing() const { return false; }
    /// Why the kernel can never read and write its files by itself; empty: nothing that it knows.
    [[nodiscard]] virtual std::string against_passthrough() const {
        return "the source is no directory of this machine";
    }
    [[nodiscard]] virtual PosixStats stats() const = 0;
    /// Where changes are queued: those of now are brought to the origin without further delay. Returns the number
    /// that PosixQueue::done_to has when they are there.
    virtual std::uint64_t hurry() { return 0; }
    /// To be called about once a second.
    virtual void tick() {}
};

}  // namespace tierfs
