// A listing of many pages, asked for in several places at once. Internal to backends/s3.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/s3/client/xml.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"

namespace tierfs::s3 {

/// The last key that a page speaks of: what comes behind it begins there (start-after). Of a common prefix that
/// is behind all of its keys. Empty: the page is.
std::string end_of(const Listing& page);

/// Whether keys and common prefixes come in order, which S3's directory buckets do not promise.
bool is_sorted(const Listing& page);

/// Keys at which what comes behind a page, up to `until` (empty: to the end), is worth dividing: names that count
/// on from the page's last key in each of its places (digits, hexadecimal digits, letters). Guesses, in order;
/// that there are keys between them is not said.
std::vector<std::string> split_points(const std::string& prefix, const Listing& page,
                                      const std::string& until);

/// Gives the pages of a prefix in order, while it asks for later ones: S3's pages come one after another, each
/// for a round trip, unless somebody begins in the middle. One walker goes on from page to page as ever, by the
/// server's tokens; from its first page on what lies ahead is divided by guesses into ranges, each of which is
/// walked, and divided, by itself. Whatever a page shows beyond its range is taken from the ranges of which nothing
/// has come yet. One request is under way at first, then as many as twice the pages that came with keys, fewer after
/// one without. The first division
/// of a mount waits for its first answer: a server that does not begin where it is told is walked as ever.
///
/// An error of what nobody waited for is forgotten, and the page asked for once more in its turn. Thread-safe;
/// `next` blocks, for one caller at a time.
class ListingAhead : public std::enable_shared_from_this<ListingAhead> {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::uint64_t kUsualPage = 300 << 10;  ///< bytes: of 1,000 keys
    /// Pages in a row without a key; a bucket of many deleted ones may have some.
    static constexpr unsigned kMostEmpty = 1000;

    /// What all listings of a mount share.
    struct Shared {
        unsigned at_once = 16;               ///< requests of one listing
        std::uint64_t bytes = 16 << 20;      ///< of pages that are kept or under way, estimated
        std::atomic<std::uint64_t> used{0};  ///< what is waited for comes even if it is beyond `bytes`
        std::atomic<std::uint64_t> page{kUsualPage};  ///< bytes of the one that came last
        enum class Begins : std::uint8_t { unknown, where_told, elsewhere };
        std::atomic<Begins> begins{Begins::unknown};
    };
    /// One page: of the keys behind `after`, or, where there is a token, that which it continues.
    struct Question {
        std::string after, token;
    };
    /// Begins a request; `done` is called exactly once, on any thread.
    using Ask = std::function<void(const Question&, std::function<void(Result<Listing>)> done)>;
    struct Page {
        Listing listing;  ///< its token is the key behind which the next one begins; empty: it is the last
        Clock::time_point asked;
    };

    /// Of what comes behind a page that ends there. `token`: the server's own, of that page; empty: not known.
    ListingAhead(std::string prefix, std::string after, std::string token, std::shared_ptr<Shared> shared,
                 Ask ask);
    ~ListingAhead();
    ListingAhead(const ListingAhead&) = delete;
    ListingAhead& operator=(const ListingAhead&) = delete;

    /// The next page; one without keys is possible. Errors: those of `ask`; EIO: the server gives keys in no
    /// order, or no end; EDEADLK: see may_wait_for.
    Result<Page> next() TIERFS_EXCLUDES(mutex_);
    /// Nobody will ask: nothing is begun any more.
    void abandon() TIERFS_EXCLUDES(mutex_);

  private:
    struct Kept {
        Page page;
        std::uint64_t charge = 0;
    };
    /// Keys behind `after`, up to `until` (empty: to the end). Those before `after` are in `pages`.
    struct Range {
        std::string after, until, token;
        bool is_asked = false, is_touched = false, is_over = false, is_waited_for = false;
        bool is_superseded = false;
        unsigned empty = 0;  ///< pages, the last of which came just now
        Clock::time_point asked;
        std::uint64_t charge = 0;
        std::deque<Kept> pages;
        std::optional<Error> error;
    };
    using Ranges = std::list<Range>;

    void pump() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool is_waited_for(Ranges::iterator range) TIERFS_REQUIRES(mutex_);
    [[nodiscard]] bool may_ask(Ranges::iterator range) TIERFS_REQUIRES(mutex_);
    void drop_given() TIERFS_REQUIRES(mutex_);
    void answered(Ranges::iterator range, Result<Listing> answer) TIERFS_EXCLUDES(mutex_);
    bool settle(Ranges::iterator range, Result<Listing> answer) TIERFS_REQUIRES(mutex_);
    Result<void> check(const Range& range, Listing& page) TIERFS_REQUIRES(mutex_);
    Result<void> take(Ranges::iterator range, Listing page) TIERFS_REQUIRES(mutex_);
    void keep(Range& range, Listing page, std::string position) TIERFS_REQUIRES(mutex_);
    void divide(Ranges::iterator range, const Listing& page) TIERFS_REQUIRES(mutex_);
    void unite() TIERFS_REQUIRES(mutex_);
    void swallow(Ranges::iterator range, const std::string& covered) TIERFS_REQUIRES(mutex_);
    void allow() TIERFS_REQUIRES(mutex_);

    const std::string prefix_;
    const std::shared_ptr<Shared> shared_;
    const Ask ask_;
    Mutex mutex_;
    std::condition_variable changed_;
    Ranges ranges_
        TIERFS_GUARDED_BY(mutex_);  ///< in order, without a gap; those that are done and given are gone
    Ranges superseded_ TIERFS_GUARDED_BY(mutex_);  ///< asked for, and another's page showed what is there
    unsigned under_way_ TIERFS_GUARDED_BY(mutex_) = 0;
    unsigned allowed_ TIERFS_GUARDED_BY(mutex_) = 1;
    unsigned useful_ TIERFS_GUARDED_BY(mutex_) = 0;    ///< pages with keys, fewer after one without
    std::uint64_t largest_ TIERFS_GUARDED_BY(mutex_);  ///< bytes of a page
    bool has_waiter_ TIERFS_GUARDED_BY(mutex_) = false;
    bool divides_ TIERFS_GUARDED_BY(mutex_) = true;
    bool is_proving_ TIERFS_GUARDED_BY(mutex_) = false;  ///< that the server begins where it is told
    bool is_abandoned_ TIERFS_GUARDED_BY(mutex_) = false;
};

/// Listings that go on between two calls of who asks for their pages. Those that nobody goes on with give way.
/// Thread-safe.
class ListingsAhead {
  public:
    static constexpr std::size_t kMost = 64;
    static constexpr std::chrono::seconds kLongest{60};

    /// The listing whose next page begins there; null: it gave way. It is the caller's until it is put back.
    std::shared_ptr<ListingAhead> take(const std::string& path, const std::string& position)
        TIERFS_EXCLUDES(mutex_);
    void put(const std::string& path, const std::string& position, std::shared_ptr<ListingAhead> listing)
        TIERFS_EXCLUDES(mutex_);

  private:
    struct Entry {
        std::string path, position;
        std::shared_ptr<ListingAhead> listing;
        ListingAhead::Clock::time_point since;
    };
    Mutex mutex_;
    std::list<Entry> entries_ TIERFS_GUARDED_BY(mutex_);  ///< the newest first
};

}  // namespace tierfs::s3
