// Files that the kernel has open on a writable mount, and the sources of the bytes of their reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/origin/posix_origin.hpp"
#include "config/base/mutex.hpp"
#include "config/base/worker_pool.hpp"
#include "fs/readwrite/descriptor_shares.hpp"
#include "fs/readwrite/file_users.hpp"
#include "fs/readwrite/live_nodes.hpp"
#include "fs/readwrite/live_passthrough.hpp"
#include "fs/readwrite/live_record.hpp"
#include "tiering/store/store.hpp"

namespace tierfs {

/// An open of a regular file. Lives until it is closed and its requests have been answered. The last of them
/// may let go of it while it is answered: there it is closed by another thread, for that may ask the origin.
struct LiveFile {
    LiveFile() = default;
    ~LiveFile();
    LiveFile(const LiveFile&) = delete;
    LiveFile& operator=(const LiveFile&) = delete;

    LiveNodePtr node;
    PosixFilePtr file;
    bool writes = false;
    bool is_passed = false;    ///< the kernel does not say who writes
    std::uint32_t opener = 0;  ///< the user who opened it
    DescriptorShares::Share share;
    std::uint32_t slot = LiveRecord::kNoSlot;  ///< in the record
    FileUsers users;                           ///< of one that is open for writing
    WorkerPool* closers = nullptr;  ///< null: closing waits for no answers (PosixOrigin::waits_for_answers)
};
using LiveFilePtr = std::shared_ptr<LiveFile>;

/// For `tierfs status`. Counts since the start, of what reached the daemon; of reads only those that passed
/// the tiers by.
struct LiveStats {
    std::uint64_t write_requests = 0, write_bytes = 0, write_errors = 0;
    std::uint64_t read_requests = 0, read_bytes = 0, read_errors = 0;
};

/// While it lives, a file is being changed: what the tiers hold of it is not read, and what was known of its
/// version no longer holds.
class LiveChange {
  public:
    explicit LiveChange(LiveNodePtr node);
    ~LiveChange();
    LiveChange(LiveChange&& other) noexcept = default;
    LiveChange& operator=(LiveChange&&) = delete;
    LiveChange(const LiveChange&) = delete;
    LiveChange& operator=(const LiveChange&) = delete;

    /// The change goes on: close() of LiveFiles ends it.
    void leave_open() { node_.reset(); }

  private:
    LiveNodePtr node_;
};

/// Thread-safe. A write goes to the origin's file at once. A read comes through the tiers when nobody has the
/// file open for writing here, and else, or when the origin says that the version has changed, from the
/// origin's file itself, which stays open: nobody reads an old version beside new bytes of this mount. What
/// is written and what has just been written may be left to the kernel (LivePassthrough).
///
/// A version is told from another by times (Attributes::version), which two changes within one tick of the
/// origin's clock share: a file that has just changed is not taken into the tiers until some time has passed
/// (is_settled). `store` and all that it stands on must outlive this.
class LiveFiles {
  public:
    /// `identity`: Origin::identity. `readers`: threads for reads of the origin's file that follow a failed
    /// read of the tiers, and to close what an answer lets go of; 0: those that bring the failure do it,
    /// which they may where the origin does not wait for answers (PosixOrigin::waits_for_answers).
    /// `is_passthrough_asked_for`: see LivePassthrough. `record`: where opens are kept for the next daemon; null: nobody
    /// takes over. It must outlive this.
    LiveFiles(Store& store, LiveNodes& nodes, std::string identity, unsigned readers,
              bool is_passthrough_asked_for = false, LiveRecord* record = nullptr)
        : store_(store),
          nodes_(nodes),
          identity_(std::move(identity)),
          readers_(readers != 0 ? std::make_unique<WorkerPool>(readers) : nullptr),
          record_(record),
          passthrough_(is_passthrough_asked_for, record) {}

    struct Opened {
        std::uint64_t handle = 0;
        bool keeps_cache = false;     ///< the pages that the kernel has of it are right
        bool is_flushed = false;      ///< close(2) tells what became of what it changed
        std::int32_t backing_id = 0;  ///< not 0: the kernel reads and writes it by itself
    };
    /// The request that opens a file.
    struct Asker {
        std::uint64_t unique = 0;  ///< its number
        std::uint32_t uid = 0;
    };
    /// `open` opens the origin's file, which `held` is.
    Result<Opened> open(const LiveNodePtr& node, const PosixNodePtr& held, int flags, Asker asker,
                        const std::function<Result<PosixFilePtr>()>& open);
    /// Takes in a file that was just made, open with these flags. `held` may be null.
    Opened created(const LiveNodePtr& node, const PosixNodePtr& held, PosixFilePtr file, int flags,
                   Asker asker);
    /// The same of one that an earlier daemon had open. Before the first request.
    Result<void> restore(const LiveRecord::Open& open, FileDescriptor file, DescriptorShares::Share share);
    /// The open that an earlier daemon made for a request which it did not answer.
    std::optional<Opened> answered_before(std::uint64_t unique);
    /// Null: no such open.
    LiveFilePtr find(std::uint64_t handle);
    void close(std::uint64_t handle);

    /// Told when a file has become another version before anything of it was seen: the kernel is to know its end
    /// if that lies further on, and then to ask for its attributes. False: it cannot be told of such an end;
    /// `untold` is called before it asks then.
    using Renewed = std::function<bool(const PosixFile::Renewal&, const std::function<void()>& untold)>;
    /// `reply` is called exactly once, on any thread; the pieces are valid until it returns. `renewed` is called
    /// before it, and for a shorter version not at all.
    void read(const LiveFilePtr& file, std::uint64_t offset, std::uint32_t size, ReadCallback reply,
              Renewed renewed = {});
    /// The kernel is being told attributes of the file that may be older than what it is now. False: it is to
    /// ask for them before it uses them.
    static bool telling(LiveNode& node);
    /// Before the file's attributes are asked for, and with its return value, when they are there: `reply` tells
    /// them to the kernel. Who reads after the reply finds the kernel told.
    static std::uint64_t asking(LiveNode& node);
    static void tell(LiveNode& node, std::uint64_t asked, const std::function<void()>& reply);
    /// Attributes of an open file that has lost its name are about to be shown. Where another host has replaced it
    /// before anything of it was read, `renew` (of PosixFile or PosixOrigin, with kAnySize) makes it what is there
    /// now, and that it stays: the size that is shown is of the bytes that will be, which come past the tiers. False: it
    /// is what it was.
    static bool renew_to_show(LiveNode& node, const std::function<Result<PosixFile::Renewal>()>& renew);
    Result<void> write(LiveFile& file, std::span<const std::byte> bytes, std::uint64_t offset);

    /// Somebody gets a lock on a file, which is so now: he is to read what those wrote who had it locked
    /// before, whoever they are. Returns the version, if the kernel may have older pages and attributes:
    /// these must go before he hears of the lock, and forgotten() is to be told of it then. Empty: a version
    /// that cannot be told from the next one.
    std::optional<std::string> locked(LiveNode& node, const PosixAttributes& now);
    /// Since `version` was the file's the kernel has forgotten all that it had of it.
    static void forgotten(LiveNode& node, std::string version);

    /// The version that readers would get of a file now, for extended attributes.
    Result<std::shared_ptr<const ObjectRef>> object(const LiveNodePtr& node, const PosixAttributes& now);

    [[nodiscard]] LiveStats stats() const;
    [[nodiscard]] LivePassthrough& passthrough() { return passthrough_; }

    /// Whether a version with these attributes cannot be taken for another any more. `now_ns`: by the origin's
    /// clock (PosixOrigin::clock_ns), since the times are.
    static bool is_settled(const PosixAttributes& attributes, std::int64_t now_ns);

  private:
    /// `is_wanted`: see LivePassthrough::open. `has_pages`: see Settled::keeps_cache.
    Opened add(const LiveNodePtr& node, const PosixNodePtr& held, PosixFilePtr file, int flags, Asker asker,
               bool is_wanted, bool has_pages);
    struct Settled {
        bool through_tiers = false;  ///< readers get one version, through the tiers
        bool keeps_cache = false;    ///< the kernel's pages are of it
    };
    /// Decides which version those read who open it now.
    Settled settle(const LiveNodePtr& node, PosixFile& file);
    /// `tellings`: LiveContent::tellings when the request came.
    void read_directly(const LiveFile& file, std::uint64_t offset, std::uint32_t size, std::uint64_t tellings,
                       const ReadCallback& reply, const Renewed& renewed);
    /// Nobody has seen any of it, and nobody has it open for writing: what was known of its bytes is forgotten.
    static bool begin_renewal(LiveNode& node);
    /// See PosixFile::renew. ESTALE: nothing has come of it; what was read before has been seen, for one.
    Result<PosixFile::Renewal> renew(const LiveFile& file, std::uint64_t asked);
    static std::uint64_t renewals(LiveNode& node);
    /// Bytes that were read after so many renewals go out. False: they must not, it is another version by now.
    static bool shows(LiveNode& node, std::uint64_t renewals);
    static void size_untold(LiveNode& node);

    Store& store_;
    LiveNodes& nodes_;
    const std::string identity_;
    const std::unique_ptr<WorkerPool> readers_;
    LiveRecord* const record_;
    LivePassthrough passthrough_;
    Mutex mutex_;
    std::unordered_map<std::uint64_t, LiveFilePtr> files_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t next_ TIERFS_GUARDED_BY(mutex_) = 1;
    std::atomic<std::uint64_t> write_requests_{0}, write_bytes_{0}, write_errors_{0};
    std::atomic<std::uint64_t> read_requests_{0}, read_bytes_{0}, read_errors_{0};
};

}  // namespace tierfs
