// Reads a dataset, or the part of it that its readers mean, into the tiers in the background.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/origin/object.hpp"
#include "config/base/mutex.hpp"
#include "config/base/units.hpp"
#include "tiering/prefetch/file_walk.hpp"
#include "tiering/prefetch/read_places.hpp"

namespace tierfs {

/// Walks the origin, a directory's files before its subdirectories, each in the order of their names, and
/// offers files. Owns the thread that does it. Keeps no data: whoever takes the offers fetches what is
/// missing, at Priority::fill, as fast as it likes.
///
/// Scope::all offers every file once (of a share, the files whose number in that order leaves `index` when
/// divided by `count`; all regular files are numbered, empty ones too).
///
/// Scope::recognised waits until small files are read in no order, lists the folder that most of them lie in,
/// and offers those files that ReadPlaces takes for meant; as more is read, more is. Since a random part of
/// a dataset cannot be told from all of it before it is read for the second time, the waste is bounded:
/// what was offered and not read since stays below `risk` plus as many bytes as readers have read, so that
/// beyond `risk` half of what was fetched is of use at any time. And where readers who still choose among
/// files find fewer than half as many of those fetched as chance would have them find, it ends for good.
/// kSegment files are looked at at a time; they take some 6 MiB.
///
/// `walk_all` asks for a walk of the first kind at any time; what was recognised begins anew after it. One
/// thread and one walk serve all datasets of a mount: the taker says which files are to be filled.
///
/// On an error of the origin the walk ends and says so in the log. It ends by itself when the tiers are full.
/// `listings` must outlive it. Thread-safe.
class DatasetFill {
  public:
    enum class Scope : std::uint8_t { all, recognised, none };
    struct Options {
        Scope scope = Scope::all;
        bool recognises = false;            ///< Scope::all: goes on as Scope::recognised
        bool stays = false;                 ///< goes on waiting for `walk_all` when there is nothing to do
        std::function<void()> begins = {};  ///< a walk over all files does; on the thread
        /// Nothing is offered for a while, or no more: what was taken need not wait for others. On the
        /// thread.
        std::function<void()> settles = {};
        Share share;
        // Scope::recognised; on the thread.
        std::uint64_t risk = 0;                ///< bytes
        std::function<bool()> may_offer = {};  ///< one more file; false: not yet. Empty: always
        std::function<void(std::uint64_t)> found =
            {};  ///< so many files, about, that were offered are read now
    };
    /// passed: not what is to be filled. full: the end.
    enum class Offered : std::uint8_t { taken, full, passed };
    /// May block; ends soon after `stopping` says true.
    using Offer = std::function<Offered(const std::shared_ptr<const ObjectRef>&)>;

    DatasetFill(RecentListings& listings, Offer offer) : listings_(listings), offer_(std::move(offer)) {}
    ~DatasetFill();

    /// Once. `done` is called on the thread, as the last thing it does.
    void start(const Options& options, std::function<void()> done);
    /// Each file is offered, once more if it was before; as soon as the walk under way ends.
    void walk_all() TIERFS_EXCLUDES(mutex_);
    /// Whether what is offered now comes from a walk over all files.
    [[nodiscard]] bool walks_all() const { return walking_all_.load(std::memory_order_relaxed); }

    /// Does not wait for the thread.
    void stop() TIERFS_EXCLUDES(mutex_);
    /// Puts a thread away that has ended: where others are held, the destructor is not called.
    void join_if_ended();
    [[nodiscard]] bool stopping() const { return stopped_.load(std::memory_order_relaxed); }
    /// Waits until the time is over or `wake`; false when stopped.
    bool pause(std::chrono::milliseconds time) TIERFS_EXCLUDES(mutex_);
    void wake() TIERFS_EXCLUDES(mutex_);

    /// A small file was read that came from the origin (`missed`) or the NVMe tier since. For
    /// Scope::recognised: a walk begins with what was missed, and is told by all which files are meant.
    void note(const ObjectRef& object, bool missed) TIERFS_EXCLUDES(mutex_) {
        if (listening_.load(std::memory_order_relaxed)) take_note(object, missed);
    }

    /// Bytes of the files that were offered.
    [[nodiscard]] std::uint64_t offered_bytes() const { return bytes_.load(std::memory_order_relaxed); }

  private:
    static constexpr std::size_t kSegment = 32 * 1024;
    static constexpr std::size_t kRecent = 32;     ///< reads that tell order from chance
    static constexpr std::size_t kHistory = 4096;  ///< reads that are looked for in a listing

    struct Note {
        std::uint64_t key = 0;  ///< hash of the path
        std::uint64_t size = 0;
    };
    enum class Place : std::uint8_t { untouched, offered, read };
    /// A stretch of the walk.
    struct Segment {
        std::vector<ListedFile> files;
        std::vector<Place> places;
        std::unordered_map<std::uint64_t, std::uint32_t> by_key;
        std::uint64_t first = 0;  ///< number of its first file
        std::uint64_t read = 0, offered_unread = 0;
        std::uint64_t meant = 0;  ///< files of it, when last counted
    };

    void take_note(const ObjectRef& object, bool missed) TIERFS_EXCLUDES(mutex_);
    void run();
    void run_all();
    void run_recognised();
    void settle() const {
        if (options_.settles && !stopping()) options_.settles();
    }
    /// Nothing, or something else, is to be done: what is under way ends.
    [[nodiscard]] bool interrupted() const { return stopping() || all_wanted_.load(); }
    /// full: the walk is over.
    Offered offer(const ListedFile& file);
    [[nodiscard]] bool may_offer() const { return !options_.may_offer || options_.may_offer(); }

    // Scope::recognised; all of it on the thread
    bool wait_for_scattered_reads(std::string& root) TIERFS_EXCLUDES(mutex_);
    void fill_tree(const std::string& root);
    bool list_page(FileWalk& walk, Segment& segment);
    /// Looks at what was read since, and at what that says.
    void drain(Segment& segment) TIERFS_EXCLUDES(mutex_);
    void located(Segment& segment, std::uint32_t place, bool now);
    bool offer_meant(Segment& segment);
    bool wait_for_readers(Segment& segment) TIERFS_EXCLUDES(mutex_);
    void remember_offered(const ListedFile& file);
    [[nodiscard]] bool is_useless() const {
        return chance_ >= 32 && static_cast<double>(found_) * 2 < chance_;
    }

    RecentListings& listings_;
    const Offer offer_;
    std::function<void()> done_;
    Options options_;
    std::string identity_;
    std::atomic<bool> stopped_{false}, listening_{false}, all_wanted_{false}, walking_all_{false};
    std::atomic<std::uint64_t> bytes_{0};

    // of the thread alone
    unsigned refused_ = 0;  ///< in a row
    bool over_ = false;     ///< nothing will be offered any more
    ReadPlaces places_;
    std::size_t unjudged_ = 0;            ///< new ones in places_
    std::vector<std::uint64_t> history_;  ///< a ring of keys
    std::size_t oldest_ = 0;
    std::unordered_set<std::uint64_t> known_;                  ///< those in it
    std::unordered_map<std::uint64_t, std::uint64_t> unread_;  ///< a sample of what was offered: key -> bytes
    unsigned unread_bits_ = 0;                                 ///< one in 2^bits is in it
    std::uint64_t unread_bytes_ = 0;                           ///< of the sample
    std::uint64_t read_bytes_ = 0;
    std::uint64_t strangers_ = 0, natives_ = 0;  ///< reads lately outside and inside of the segment
    double chance_ = 0;                          ///< how many reads would have found offered files
    std::uint64_t found_ = 0;                    ///< how many did

    Mutex mutex_;
    std::condition_variable wake_;
    std::vector<Note> notes_ TIERFS_GUARDED_BY(mutex_);  ///< not looked at yet
    std::vector<std::string> recent_ TIERFS_GUARDED_BY(mutex_);
    std::atomic<bool> ended_{false};  ///< but for `done`
    std::thread thread_;
};

}  // namespace tierfs
