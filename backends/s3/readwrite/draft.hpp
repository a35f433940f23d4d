// A file of a bucket that is being changed.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>

#include "backends/s3/readwrite/bucket_calls.hpp"
#include "backends/s3/readwrite/byte_ranges.hpp"
#include "backends/s3/readwrite/part_sizes.hpp"
#include "backends/s3/readwrite/recent_copies.hpp"

namespace tierfs::s3 {

/// What all drafts of a mount share. Thread-safe.
class DraftTotals {
  public:
    using Clock = std::chrono::steady_clock;
    /// Parts that may be on their way at the same time, of all files: who wants to send another one waits.
    static constexpr unsigned kMostParts = 32;

    void take_part() TIERFS_EXCLUDES(mutex_);
    void give_part() TIERFS_EXCLUDES(mutex_);

    /// Of a draft: what has not been published, and since when.
    void set_dirty(const void* draft, std::uint64_t bytes, Clock::time_point since) TIERFS_EXCLUDES(mutex_);
    void set_clean(const void* draft) TIERFS_EXCLUDES(mutex_);
    void add_error() TIERFS_EXCLUDES(mutex_);
    /// Whether parts are sent while a file is written; set before the first draft is made.
    bool sends_early = true;
    struct Sums {
        std::uint64_t dirty_bytes = 0, errors = 0;
        double oldest_s = 0;
    };
    Sums sums(Clock::time_point now = Clock::now()) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] std::uint64_t dirty_bytes() const { return dirty_bytes_.load(std::memory_order_relaxed); }

  private:
    struct Dirty {
        std::uint64_t bytes = 0;
        Clock::time_point since;
    };
    Mutex mutex_;
    std::condition_variable given_;
    unsigned parts_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t errors_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::map<const void*, Dirty> dirty_ TIERFS_GUARDED_BY(mutex_);
    std::atomic<std::uint64_t> dirty_bytes_{0};  ///< of all of them
};

/// The bytes of a file from when it is opened for writing until nobody has it open so any more: in a local
/// copy, which holds what was written and, where it is needed, what the object had (the base). Parts that
/// have not been changed since the base was made are copied by the server; whatever was published is the base
/// from then on. What is written from front to back is sent in parts while it is written; nobody sees
/// anything of it before publish(), and then the whole.
///
/// Thread-safe: changes and publish() come one after the other, reads at any time. Memory: a few hundred KiB
/// while bytes are sent. The disk: what was written, less what was sent already when its file system fills
/// up; then writers wait for the parts that are on their way, and fail with ENOSPC when that gives nothing.
/// Calls block for at most the deadlines of their requests.
///
/// Metadata travels ahead of the parts: the time of a file that is sent in parts is that of the first part
/// that was sent, and what is changed after that (modes, owners, times) costs a copy at the server.
///
/// A failed write to the local copy makes every later publish() fail: a file with a hole in it must not
/// replace a good one. A failed publish() may be tried again.
///
/// One that is frozen has been acknowledged as it is, and its bytes never change again (kFrozen): who changes the
/// file does so in one that goes on from it.
///
/// One that is passed through is written by the kernel, which tells nobody: its size and times are those of the local
/// copy, it is never frozen nor published, and becomes an object by its snapshots (draft_passed.cpp).
class Draft : public std::enable_shared_from_this<Draft> {
  public:
    /// The error of whoever would change one that is frozen: no system call of ours gives it.
    static constexpr int kFrozen = ERESTART;

    /// The object that it changes.
    struct Base {
        std::string path;
        Facts facts;
    };
    /// `base` null: a new file, which is there once it has been published.
    Draft(BucketCalls& calls, DraftTotals& totals, std::shared_ptr<LocalCopy> copy, FileMetadata metadata,
          std::optional<Base> base);
    /// Of bytes that are all in `copy`, and that no object has yet.
    Draft(BucketCalls& calls, DraftTotals& totals, std::shared_ptr<LocalCopy> copy, FileMetadata metadata,
          std::uint64_t size);
    /// Gives up what was sent and not published.
    ~Draft();
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;

    Result<void> write(std::span<const std::byte> bytes, std::uint64_t offset) TIERFS_EXCLUDES(mutex_);
    /// Fewer bytes than asked for: the end of the file.
    Result<std::size_t> read(std::span<std::byte> destination, std::uint64_t offset) TIERFS_EXCLUDES(mutex_);
    Result<void> resize(std::uint64_t size) TIERFS_EXCLUDES(mutex_);
    /// Makes a range zeros, as far as the file goes.
    Result<void> clear(std::uint64_t begin, std::uint64_t end) TIERFS_EXCLUDES(mutex_);
    /// Gets what is still at the base alone: the object may go then.
    Result<void> detach() TIERFS_EXCLUDES(mutex_);

    /// Makes what is here the object at `path`. Nothing changed: does nothing. Returns what is there now.
    Result<Facts> publish(const std::string& path, const PutOptions& condition) TIERFS_EXCLUDES(mutex_);
    /// The next publish() makes an object of what is here, changed or not: at another path than the base's.
    void publish_again() TIERFS_EXCLUDES(mutex_);
    /// Where it is to be published.
    void set_path(std::string path) TIERFS_EXCLUDES(mutex_);
    /// It is to be published nowhere yet: what was sent for another path is given up.
    void give_up_path() TIERFS_EXCLUDES(mutex_);
    /// It is at another name now. `has_its_bytes`: the object there is a copy of its base; else it is one that
    /// another host had put in the place of the base, with which nothing of this draft may be mixed.
    void rebase(Base base, bool has_its_bytes) TIERFS_EXCLUDES(mutex_);
    /// Whether nothing has been written since it was made or cut to nothing: closing one of several
    /// descriptors is no reason to put an empty object there.
    [[nodiscard]] bool awaits_content() TIERFS_EXCLUDES(mutex_);

    /// Gets what is at the base alone, and lets nobody change a byte from then on; the local copy is durable then. kFrozen:
    /// it is passed through.
    Result<void> freeze() TIERFS_EXCLUDES(mutex_);
    /// publish() ends as soon as it can, with ECANCELED where it has not made an object of several parts yet: for who would
    /// have it published elsewhere.
    void give_up() { is_given_up_.store(true, std::memory_order_relaxed); }
    /// It is an object now: nobody needs it as it is.
    void unfreeze() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool is_frozen() TIERFS_EXCLUDES(mutex_);
    /// How many bytes freeze() would get.
    [[nodiscard]] std::uint64_t bytes_elsewhere() TIERFS_EXCLUDES(mutex_);
    /// Of one that is frozen: another one with the same file, of which at most so many bytes are taken over.
    Result<std::shared_ptr<Draft>> go_on(std::shared_ptr<LocalCopy> copy, std::uint64_t at_most)
        TIERFS_EXCLUDES(mutex_);
    /// Of one that has been published: the one that goes on from it gets the object as its base.
    void hand_base_on() TIERFS_EXCLUDES(mutex_);
    /// The object at the path is what is here: it was published by somebody who did not live to hear of it.
    void found_published(Base base) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] const std::shared_ptr<LocalCopy>& copy() const { return copy_; }

    // draft_passed.cpp
    /// Whether all that it has is in the local copy, where the kernel may change it.
    [[nodiscard]] bool may_pass_through() TIERFS_EXCLUDES(mutex_);
    /// From now on the kernel changes it. False: it is frozen, or not all of it is here.
    bool pass_through() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool is_passed_through() const { return is_passed_.load(std::memory_order_acquire); }
    struct Snapshot {
        std::shared_ptr<Draft> draft;  ///< frozen; its base becomes that of the one it was made of
        std::uint64_t changes = 0;     ///< up to which it has them
    };
    /// Of one that is passed through, which a shared_ptr holds: what it is now, with all writes that have returned.
    Result<Snapshot> snapshot(std::shared_ptr<LocalCopy> copy) TIERFS_EXCLUDES(mutex_);
    /// A snapshot of it stands in the journal, or at the bucket: it is as changed as it has been since.
    void kept(const Snapshot& snapshot) TIERFS_EXCLUDES(mutex_);
    /// When it was written to last: wall clock, nanoseconds.
    [[nodiscard]] std::int64_t written_ns() TIERFS_EXCLUDES(mutex_);

    /// All bytes of what was published last, if they are here and nothing has been changed since.
    std::optional<RecentCopy> whole_copy() TIERFS_EXCLUDES(mutex_);

    void set_metadata(FileMetadata metadata) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] FileMetadata metadata() TIERFS_EXCLUDES(mutex_);
    /// The object has it, with the same bytes; nothing where something has been changed here.
    void renew_metadata(FileMetadata metadata) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] std::uint64_t size() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool is_changed() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool has_base() TIERFS_EXCLUDES(mutex_);
    /// Whether it can be published no more.
    [[nodiscard]] bool is_broken() TIERFS_EXCLUDES(mutex_);
    /// Of the object that it changes; empty where there is none, or where the server gives none to compare.
    [[nodiscard]] std::string base_version() TIERFS_EXCLUDES(mutex_);

  private:
    enum class PartState : std::uint8_t { sending, sent, failed };
    struct Part {
        PartState state = PartState::sending;
        UploadPart sent;
        Error error;
        bool is_copy = false;  ///< of the base's bytes, by the server
    };
    /// The right to change the file: one at a time, held over requests.
    class Turn {
      public:
        explicit Turn(Draft& draft);
        ~Turn();
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

      private:
        Draft& draft_;
    };

    // draft.cpp; all of what follows is called by who has the turn.
    Result<void> may_change() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] std::vector<ByteRange> absent(std::uint64_t begin, std::uint64_t end)
        TIERFS_REQUIRES(mutex_);
    Result<void> fetch(std::uint64_t begin, std::uint64_t end) TIERFS_EXCLUDES(mutex_);
    Result<void> fetch_piece(const Base& base, ByteRange range, Together& together);
    void changed(std::uint64_t begin, std::uint64_t end) TIERFS_REQUIRES(mutex_);
    void bytes_have_changed(std::uint64_t bytes, std::int64_t now_ns) TIERFS_REQUIRES(mutex_);
    void look() TIERFS_REQUIRES(mutex_);
    Result<void> make_room(std::uint64_t bytes) TIERFS_EXCLUDES(mutex_);
    Result<void> failed(Error error) TIERFS_EXCLUDES(mutex_);

    void adopt_base(Base base) TIERFS_EXCLUDES(mutex_);

    // draft_publish.cpp
    void send_what_is_complete(std::uint64_t begin, std::uint64_t end) TIERFS_EXCLUDES(mutex_);
    Result<void> begin_upload(const std::string& path) TIERFS_EXCLUDES(mutex_);
    void send(unsigned number, ByteRange range, bool from_base) TIERFS_EXCLUDES(mutex_);
    void sent(unsigned number, Result<UploadPart> part) TIERFS_EXCLUDES(mutex_);
    void wait_for_parts(unsigned at_most) TIERFS_EXCLUDES(mutex_);
    void wait_for_parts_of(std::uint64_t begin, std::uint64_t end) TIERFS_EXCLUDES(mutex_);
    void drop_upload() TIERFS_EXCLUDES(mutex_);
    Result<std::string> publish_bytes(const std::string& path, const PutOptions& condition)
        TIERFS_EXCLUDES(mutex_);
    Result<std::string> publish_small(const std::string& path, const PutOptions& condition)
        TIERFS_EXCLUDES(mutex_);
    Result<std::string> publish_parts(const std::string& path, const PutOptions& condition)
        TIERFS_EXCLUDES(mutex_);
    Result<void> is_wanted_here() TIERFS_EXCLUDES(mutex_);
    Result<void> send_all_parts(std::uint64_t size) TIERFS_EXCLUDES(mutex_);
    Result<std::vector<UploadPart>> parts_sent() TIERFS_EXCLUDES(mutex_);
    Result<void> publish_metadata(const std::string& path) TIERFS_EXCLUDES(mutex_);
    void published(const std::string& path, std::string version) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool base_is_there() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool is_at_base(ByteRange range) TIERFS_REQUIRES(mutex_);
    bool can_send_all() TIERFS_EXCLUDES(mutex_);

    BucketCalls& calls_;
    DraftTotals& totals_;
    const std::shared_ptr<LocalCopy> copy_;
    PartDigests digests_;  ///< for who has the turn
    std::atomic<bool> is_given_up_{false};

    Mutex mutex_;
    std::condition_variable changed_;
    bool has_turn_ TIERFS_GUARDED_BY(mutex_) = false;
    FileMetadata metadata_ TIERFS_GUARDED_BY(mutex_);
    std::optional<FileMetadata> sent_metadata_ TIERFS_GUARDED_BY(mutex_);  ///< of upload_
    std::optional<Base> base_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t base_limit_ TIERFS_GUARDED_BY(mutex_);  ///< the base's bytes count below this
    std::uint64_t size_ TIERFS_GUARDED_BY(mutex_);
    ByteRanges present_ TIERFS_GUARDED_BY(mutex_);  ///< what the local copy has, of what the base has too
    ByteRanges gone_ TIERFS_GUARDED_BY(mutex_);     ///< sent, and given up here for want of room
    ByteRanges dirty_ TIERFS_GUARDED_BY(mutex_);    ///< changed since the base was made
    /// The base may go or has become another object: what is here is sent instead.
    bool sends_all_ TIERFS_GUARDED_BY(mutex_) = false;
    bool is_frozen_ TIERFS_GUARDED_BY(mutex_) = false;
    std::atomic<bool> is_passed_{false};                   ///< for good
    LocalCopy::Stamp seen_ TIERFS_GUARDED_BY(mutex_);      ///< of one that is passed through
    std::uint64_t changes_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< likewise
    std::weak_ptr<Draft> next_ TIERFS_GUARDED_BY(mutex_);  ///< that goes on from it
    bool awaits_content_ TIERFS_GUARDED_BY(mutex_);
    bool bytes_changed_ TIERFS_GUARDED_BY(mutex_), metadata_changed_ TIERFS_GUARDED_BY(mutex_) = false;
    std::uint64_t unpublished_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< bytes
    std::optional<Error> broken_ TIERFS_GUARDED_BY(mutex_);
    DraftTotals::Clock::time_point dirty_since_ TIERFS_GUARDED_BY(mutex_);

    std::string path_ TIERFS_GUARDED_BY(mutex_);  ///< where it is to be published, as far as is known
    std::optional<Upload> upload_ TIERFS_GUARDED_BY(mutex_);
    std::map<unsigned, Part> parts_ TIERFS_GUARDED_BY(mutex_);
    unsigned sending_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t last_end_ TIERFS_GUARDED_BY(mutex_) = 0;   ///< of the write before
    std::uint64_t run_begin_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< of writes that follow one another
};

}  // namespace tierfs::s3
