// Names of a bucket that were learnt of lately: there, not there, and their attributes.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "backends/s3/readwrite/file_metadata.hpp"
#include "backends/s3/readwrite/inode_numbers.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::s3 {

struct Listing;

/// What is at a name.
struct Facts {
    enum class Kind : std::uint8_t { absent, file, directory } kind = Kind::absent;
    FileMetadata metadata;    ///< not of absent; the type is in its mode
    std::uint64_t size = 0;   ///< of a file
    std::string version;      ///< of a file: as Attributes::version
    bool has_marker = false;  ///< of a directory: there is an object for it
    bool archived = false;    ///< of a file: see Attributes
    bool keeps_mode = false;  ///< as HEAD says: there is a FileMetadata with it
    bool has_tags = false;    ///< of a file, as HEAD says: BucketCalls::ask_tags brings them
    [[nodiscard]] bool is_there() const { return kind != Kind::absent; }
    /// An empty file of the last minute, by its own time, may be one that its maker has just begun to write:
    /// for how long it is so nobody knows.
    [[nodiscard]] bool may_be_begun() const;
};

/// The names in a directory, as a listing showed them from its beginning to its end.
struct ListedNames {
    enum class Shown : std::uint8_t {
        absent,
        key,     ///< and no key begins with it and '/'
        prefix,  ///< perhaps a key as well
    };
    std::unordered_map<std::string, Shown> names;
    std::chrono::steady_clock::time_point since;  ///< when the listing was begun
    std::uint64_t drops = 0;                      ///< KnownNames::drops() then
    bool is_whole = true;                         ///< false: there are too many, and nothing is known of them

    /// Bytes, with what is around it.
    static std::uint64_t memory_of(const std::string& name) { return 96 + name.size(); }
    /// Takes in a page of keys and prefixes that begin with `prefix`. Returns the bytes of what is new.
    std::uint64_t add(const Listing& page, const std::string& prefix);
};

/// A bounded memory of Facts by place, each for a time: metadata.ttl, five seconds at most for what is absent,
/// and none for what another host may have just begun. What is put after a change of this mount's own is right
/// at once. Thread-safe.
///
/// Beside it, what listings showed, for the same times: for who found nothing with get(), which knows better. Both are kept
/// for longer, as far as there is room, for who can ask nobody (last, shown_last).
class KnownNames {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::size_t kMost = 1U << 16;
    static constexpr std::chrono::milliseconds kLongestAbsent{5000};

    explicit KnownNames(std::chrono::milliseconds ttl) : ttl_(ttl) {}

    std::optional<Facts> get(Place place, Clock::time_point now = Clock::now()) TIERFS_EXCLUDES(mutex_);
    /// Nothing: it has not been put since then.
    std::optional<Facts> get_younger(Place place, std::chrono::milliseconds age,
                                     Clock::time_point now = Clock::now()) TIERFS_EXCLUDES(mutex_);
    void put(Place place, Facts facts, Clock::time_point now = Clock::now()) TIERFS_EXCLUDES(mutex_);
    /// And in what a listing of the directory showed.
    void put(std::uint64_t directory, const std::string& name, Facts facts) TIERFS_EXCLUDES(mutex_);
    /// When something was asked of a place. What was asked before a change of this mount's must not be put
    /// after it, nor behind what was asked later: answers overtake each other. An answer that is not put
    /// leaves nothing older than itself.
    struct Moment {
        std::uint64_t changes = 0;
        Clock::time_point at;
    };
    [[nodiscard]] Moment moment(Place place) TIERFS_EXCLUDES(mutex_);
    void put_answer(Place place, Facts facts, const Moment& asked) TIERFS_EXCLUDES(mutex_);
    /// Also what listings showed: for who does not know what is there now.
    void drop(Place place) TIERFS_EXCLUDES(mutex_);
    void clear() TIERFS_EXCLUDES(mutex_);
    /// A file that is being made is to be asked for again; nothing has changed at the bucket.
    void forget(Place place) TIERFS_EXCLUDES(mutex_);

    /// Directories with more names, and listings that a drop() may have made wrong, are not kept.
    static constexpr std::size_t kMostListed = 4096, kMostListings = 16;
    static constexpr std::uint64_t kMostBytesListed = 4 << 20;
    [[nodiscard]] std::uint64_t drops() TIERFS_EXCLUDES(mutex_);
    void put_listing(std::uint64_t directory, ListedNames listed) TIERFS_EXCLUDES(mutex_);
    /// Nothing: not known, or something was put since the listing was begun.
    std::optional<ListedNames::Shown> shown(std::uint64_t directory, const std::string& name,
                                            Clock::time_point now = Clock::now()) TIERFS_EXCLUDES(mutex_);
    /// What was put last, and what a listing showed where nothing was put since, however long ago.
    std::optional<Facts> last(Place place) TIERFS_EXCLUDES(mutex_);
    std::optional<ListedNames::Shown> shown_last(std::uint64_t directory, const std::string& name)
        TIERFS_EXCLUDES(mutex_);
    /// All of a directory, however long ago others changed it; nothing: no listing showed them all.
    std::optional<std::unordered_map<std::string, ListedNames::Shown>> names_last(std::uint64_t directory)
        TIERFS_EXCLUDES(mutex_);
    /// Whether what was put last was a directory, however long ago.
    [[nodiscard]] bool was_directory(Place place) TIERFS_EXCLUDES(mutex_);
    /// Whether there is an object for a directory: true stays true until drop().
    void set_marker(Place place) TIERFS_EXCLUDES(mutex_);

  private:
    struct Entry {
        Place place;
        Facts facts;
        Clock::time_point since, until;
        bool is_doubtful = false;  ///< an answer that may be later has not been put: for last() alone
    };
    /// What this mount has put, for listings that were asked for before and come after.
    struct Own {
        std::uint64_t directory;
        std::string name;
        std::optional<ListedNames::Shown> shown;  ///< nothing: it is gone
        Clock::time_point at;
    };
    static constexpr std::size_t kMostOwn = 1024;
    struct Listing {
        std::uint64_t directory = 0;
        ListedNames listed;
        std::uint64_t bytes = 0;
    };
    void put_locked(Place place, Facts facts, Clock::time_point now, bool is_own) TIERFS_REQUIRES(mutex_);
    void make_room() TIERFS_REQUIRES(mutex_);
    struct Showing {
        ListedNames::Shown shown;
        Clock::time_point since;
    };
    static void note(ListedNames& listed, const Own& own);
    /// Null: no listing showed them all.
    Listing* listing_of(std::uint64_t directory) TIERFS_REQUIRES(mutex_);
    std::optional<Showing> showing(std::uint64_t directory, const std::string& name) TIERFS_REQUIRES(mutex_);
    void forget_locked(Place place) TIERFS_REQUIRES(mutex_);
    std::uint64_t& changes_of(Place place) TIERFS_REQUIRES(mutex_) { return changes_[place % kShares]; }

    static constexpr std::size_t kShares = 256;
    const std::chrono::milliseconds ttl_;
    Mutex mutex_;
    std::list<Entry> entries_ TIERFS_GUARDED_BY(mutex_);  ///< the one used last first
    std::unordered_map<Place, std::list<Entry>::iterator> by_place_ TIERFS_GUARDED_BY(mutex_);
    /// Counted for a share of the places each, so that a busy mount does not lose the answers for the others.
    std::array<std::uint64_t, kShares> changes_ TIERFS_GUARDED_BY(mutex_){};
    std::list<Listing> listings_ TIERFS_GUARDED_BY(mutex_);  ///< the one used last first
    std::uint64_t drops_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::deque<Own> own_ TIERFS_GUARDED_BY(mutex_);  ///< the latest last
    Clock::time_point own_since_ TIERFS_GUARDED_BY(mutex_) =
        Clock::time_point::min();  ///< own_ has all that came after
};

}  // namespace tierfs::s3
