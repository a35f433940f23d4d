// The queue of a write-back mount: what was acknowledged and is not at the bucket yet, in the order in which it gets there.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backends/origin/posix_origin.hpp"
#include "backends/s3/readwrite/journal.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::s3 {

class Draft;
struct BucketNode;

/// See above. Each entry stands in the journal before it is acknowledged, and until it has been done.
///
/// Order. An entry waits for all that had been acknowledged when the program changed its file last (`after`), and for
/// what came before it at the same path. Two kinds do not wait for their like: small files that were closed without
/// fsync(2) (light), and removals; so many go at a time. What cannot be done now is tried again, and what waits for it
/// waits. An entry is not begun before it is kLinger old, so that what a program does to a file right after closing it
/// (rename, times, modes, removal) costs the bucket nothing.
///
/// Thread-safe. What comes of entries of one path is told in their order.
class WriteBack {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds kLinger{1000};
    static constexpr unsigned kMostAtOnce = 16;

    struct Entry {
        JournalRecord record;              ///< the queue's; whoever carries it out or holds it may read it
        std::shared_ptr<Draft> draft;      ///< of put; frozen
        std::shared_ptr<BucketNode> node;  ///< of put
        std::shared_ptr<BucketNode> directory;  ///< of remove: where the name was
        Clock::time_point since;

      private:
        friend class WriteBack;
        enum class State : std::uint8_t { queued, held, running, done } state = State::queued;
        Clock::time_point due;
        std::int64_t acknowledged_ns = 0;  ///< CLOCK_REALTIME_COARSE, not after anybody could know of it
        std::int64_t clock_offset_ns = 0;  ///< from CLOCK_BOOTTIME then
        unsigned failures = 0;
        bool was_begun = false;         ///< the bucket may have it, whatever was heard of that
        bool was_begun_before = false;  ///< this attempt
        std::string error = {};         ///< of the last one
        std::shared_ptr<Entry> former;  ///< at the same path, until that is done
        /// Once it has been carried out: what whatever comes next at its path finds there.
        bool is_left = false, is_conflict = false;
        JournalRecord::Expects left = JournalRecord::Expects::nothing;
        std::string left_version = {};
    };
    using EntryPtr = std::shared_ptr<Entry>;

    struct Outcome {
        enum class Kind : std::uint8_t {
            done,
            conflict,  ///< another host's object is there, and stays
            again      ///< it failed, and may be tried later
        } kind = Kind::done;
        std::string version = {};  ///< of put: what is there now; empty: nobody could tell
        Error error = {};
        bool is_untouched = false;  ///< of again: the bucket has nothing of it
    };
    using CarryOut = std::function<Outcome(const Entry&)>;
    using Settled = std::function<void(const Entry&)>;
    using Waits = std::function<bool()>;

    /// `carry_out` may block, and is called on as many threads as there is work for. `settled` hears of each that has been
    /// carried out when the journal has nothing of it any more, so that its bytes may change; it calls nothing of this.
    /// While `waits`, which is called under a lock, nothing is begun.
    WriteBack(std::unique_ptr<Journal> journal, CarryOut carry_out, Settled settled = {}, Waits waits = {});
    ~WriteBack() { stop(); }
    WriteBack(const WriteBack&) = delete;
    WriteBack& operator=(const WriteBack&) = delete;

    /// What is under way is given up at its next error; what is queued stays in the journal.
    void begin_stop() TIERFS_EXCLUDES(mutex_);
    void stop() TIERFS_EXCLUDES(mutex_);

    [[nodiscard]] Journal& journal() { return *journal_; }
    /// What a change that is made now may know of: see JournalRecord::after.
    [[nodiscard]] std::uint64_t last() const { return last_.load(std::memory_order_acquire); }
    /// The same of one that was made at that time by the clock of file systems, nanoseconds; more than that where the clock
    /// has been set since.
    [[nodiscard]] std::uint64_t last_before(std::int64_t time_ns) TIERFS_EXCLUDES(mutex_);

    /// Returns when it stands in the journal, also while the mount ends. The sequence is given to it here; `expects` counts where nothing of its path
    /// is queued. `instead`: an entry that the caller holds, and that goes: where it has the same path, what it expected
    /// is expected of the new one, and if anything was acknowledged after it by now it stays. For two entries of one path the caller sees to the order.
    Result<EntryPtr> add(Entry entry, const EntryPtr& instead = nullptr) TIERFS_EXCLUDES(mutex_, changing_);
    /// What the journal had when it was opened, in order. It is begun by the next hurry().
    EntryPtr add_found(Entry entry) TIERFS_EXCLUDES(mutex_);

    /// False: it has been begun at some time. Else it is not begun until it is let go, replaced or withdrawn.
    bool hold(const EntryPtr& entry) TIERFS_EXCLUDES(mutex_);
    /// An upload of several parts that is under way is given up, and begun again some seconds later, unless it has been done
    /// by then. Waits for that; not for who has the path locked, which the end of an upload waits for.
    void give_up(const EntryPtr& entry, Clock::time_point deadline) TIERFS_EXCLUDES(mutex_);
    void let_go(const EntryPtr& entry) TIERFS_EXCLUDES(mutex_);
    /// Of one that is held: it is never done. On an error it is held as before.
    Result<void> withdraw(const EntryPtr& entry) TIERFS_EXCLUDES(mutex_, changing_);
    /// Whether nothing was acknowledged after it.
    [[nodiscard]] bool is_last(const EntryPtr& entry) const;
    /// And nothing at its path is queued before it.
    [[nodiscard]] bool stands_alone(const EntryPtr& entry) TIERFS_EXCLUDES(mutex_);
    /// Whether there is nothing at its path before it, so that it leaves nothing there if it goes elsewhere: of null, and of
    /// a removal, nothing ever is.
    [[nodiscard]] bool is_new(const EntryPtr& entry) TIERFS_EXCLUDES(mutex_);
    /// Of one that is held: its record is changed, but for sequence and path, here and in the journal.
    Result<void> change(const EntryPtr& entry, const std::function<void(JournalRecord&)>& change)
        TIERFS_EXCLUDES(mutex_, changing_);

    /// The last thing that is queued for a path; null: nothing.
    EntryPtr at(const std::string& path) TIERFS_EXCLUDES(mutex_);
    /// Whether a removal is.
    bool is_removed(const std::string& path) TIERFS_EXCLUDES(mutex_);
    /// Removals in a folder, by the paths that begin with `marker`.
    std::vector<std::string> removed_below(const std::string& marker) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] std::size_t size() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool is_done_to(std::uint64_t sequence) TIERFS_EXCLUDES(mutex_);
    /// Whether something is queued for a path, or below it.
    [[nodiscard]] bool is_queued_below(const std::string& path) TIERFS_EXCLUDES(mutex_);

    /// Nothing lingers of what is queued now; returns the last sequence of it.
    std::uint64_t hurry() TIERFS_EXCLUDES(mutex_);
    /// Waits for all up to a sequence. ETIMEDOUT; ECANCELED: the mount ends.
    Result<void> wait_for(std::uint64_t sequence, Clock::time_point deadline) TIERFS_EXCLUDES(mutex_);
    Result<void> wait_for(const EntryPtr& entry, Clock::time_point deadline) TIERFS_EXCLUDES(mutex_);
    /// Waits until something has been done. False: not until then.
    bool wait_for_any(Clock::time_point deadline) TIERFS_EXCLUDES(mutex_);

    PosixQueue figures(Clock::time_point now = Clock::now()) TIERFS_EXCLUDES(mutex_);

  private:
    enum Class : std::size_t { heavy, light, removal, kClasses };
    Result<EntryPtr> add_now(Entry entry, EntryPtr instead) TIERFS_EXCLUDES(mutex_);
    static Class class_of(const JournalRecord& record);
    static void note_time(Entry& entry);
    void insert(const EntryPtr& entry) TIERFS_REQUIRES(mutex_);
    [[nodiscard]] std::uint64_t oldest() const TIERFS_REQUIRES(mutex_);
    void erase(const EntryPtr& entry) TIERFS_REQUIRES(mutex_);
    [[nodiscard]] bool may_begin(const Entry& entry) const TIERFS_REQUIRES(mutex_);
    EntryPtr next(Clock::time_point now, Clock::time_point& wake) TIERFS_REQUIRES(mutex_);
    void run() TIERFS_EXCLUDES(mutex_, changing_);
    void carry_out_and_settle(const EntryPtr& entry) TIERFS_EXCLUDES(mutex_, changing_);
    static void leave(Entry& entry, const Outcome& outcome);
    EntryPtr next_at_its_path(const EntryPtr& entry) TIERFS_REQUIRES(mutex_);
    Result<void> settle(const EntryPtr& entry) TIERFS_EXCLUDES(mutex_) TIERFS_REQUIRES(changing_);
    void queue_again(const EntryPtr& entry, const Error* failed) TIERFS_EXCLUDES(mutex_);
    static bool is_taken_over(const Entry& next, const Entry& former, bool is_conflict);
    static void take_over(JournalRecord& record, const Entry& former);
    void begin_thread() TIERFS_REQUIRES(mutex_);
    [[nodiscard]] Result<void> stopped_or_done() const TIERFS_REQUIRES(mutex_);

    const std::unique_ptr<Journal> journal_;
    const CarryOut carry_out_;
    const Settled settled_;
    const Waits waits_;
    std::atomic<std::uint64_t> last_{0};

    Mutex changing_;  ///< held while a record is written anew; before mutex_
    Mutex mutex_;
    std::condition_variable changed_;
    bool is_stopping_ TIERFS_GUARDED_BY(mutex_) = false;
    std::map<std::uint64_t, EntryPtr> entries_ TIERFS_GUARDED_BY(mutex_);
    /// JournalRecord::first of each, and of those that are being added.
    std::array<std::set<std::uint64_t>, kClasses> by_class_ TIERFS_GUARDED_BY(mutex_);
    std::unordered_map<std::string, EntryPtr> by_path_ TIERFS_GUARDED_BY(mutex_);  ///< the last of each
    std::uint64_t bytes_ TIERFS_GUARDED_BY(mutex_) = 0, done_ TIERFS_GUARDED_BY(mutex_) = 0,
                         conflicts_ TIERFS_GUARDED_BY(mutex_) = 0;
    unsigned running_ TIERFS_GUARDED_BY(mutex_) = 0, idle_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::vector<std::thread> threads_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs::s3
