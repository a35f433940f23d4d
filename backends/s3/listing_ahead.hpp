// A listing of many pages, asked for in several places at once. Internal to backends/s3.
#pragma once

#include <condition_variable>
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
/// for a round trip, unless somebody begins in the middle. One walker goes on from page to page as ever; from
/// its first page on what lies ahead is divided by guesses into ranges, each of which is walked, and divided,
/// by itself. Whatever a page shows beyond its range is taken from the ranges that nobody has asked for yet: a
/// wrong guess costs a request and no page. One request is under way at first, then as many as twice the pages
/// that came.
///
/// Thread-safe; `next` blocks, for one caller at a time.
class ListingAhead : public std::enable_shared_from_this<ListingAhead> {
  public:
    /// Bytes of pages that are kept or under way, estimated; what is waited for comes all the same.
    struct Limits {
        unsigned at_once = 16;
        std::uint64_t bytes = 16 << 20;
    };
    static constexpr std::uint64_t kUsualPage = 300 << 10;  ///< bytes: of 1,000 keys
    /// One page: of the keys behind `after`, or that which `token` continues.
    struct Question {
        std::string after, token;
    };
    /// Begins a request; `done` is called exactly once, on any thread.
    using Ask = std::function<void(const Question&, std::function<void(Result<Listing>)> done)>;

    /// Of what comes behind a first page that ends there. `token`: the server's own, of that page.
    ListingAhead(std::string prefix, std::string after, std::string token, Limits limits, Ask ask);
    /// Where who cannot be answered goes on from the first page; empty: others were given since.
    std::string token() TIERFS_EXCLUDES(mutex_);

    /// The next page; one without keys is possible. Its token is the key behind which the next one begins.
    /// Errors: those of `ask`; EIO: the server ignores start-after, or gives keys in no order; EDEADLK: see
    /// may_wait_for.
    Result<Listing> next() TIERFS_EXCLUDES(mutex_);
    /// Nobody will ask: nothing is begun any more.
    void abandon() TIERFS_EXCLUDES(mutex_);

  private:
    /// Keys behind `after`, up to `until` (empty: to the end). Those before `after` are in `pages`.
    struct Range {
        std::string after, until, token;
        bool is_asked = false, is_touched = false, is_over = false;
        std::deque<Listing> pages;
        std::optional<Error> error;
    };
    using Ranges = std::list<Range>;

    void pump() TIERFS_EXCLUDES(mutex_);
    void answered(Ranges::iterator range, Result<Listing> answer) TIERFS_EXCLUDES(mutex_);
    void take(Ranges::iterator range, Listing page) TIERFS_REQUIRES(mutex_);
    void divide(Ranges::iterator range, const Listing& page) TIERFS_REQUIRES(mutex_);
    void swallow(Ranges::iterator range, const std::string& covered) TIERFS_REQUIRES(mutex_);

    const std::string prefix_;
    const Limits limits_;
    const Ask ask_;
    Mutex mutex_;
    std::condition_variable changed_;
    std::string token_ TIERFS_GUARDED_BY(mutex_);
    Ranges ranges_
        TIERFS_GUARDED_BY(mutex_);  ///< in order, without a gap; those that are done and given are gone
    unsigned under_way_ TIERFS_GUARDED_BY(mutex_) = 0;
    unsigned allowed_ TIERFS_GUARDED_BY(mutex_) = 1, received_ TIERFS_GUARDED_BY(mutex_) = 0;
    unsigned kept_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< pages
    std::uint64_t largest_ TIERFS_GUARDED_BY(mutex_) = kUsualPage;
    bool is_abandoned_ TIERFS_GUARDED_BY(mutex_) = false;
};

/// Listings that go on between two calls of who asks for their pages: a few, of which the one that was not asked
/// for the longest gives way. Thread-safe.
class ListingsAhead {
  public:
    static constexpr std::size_t kMost = 4;

    /// The listing whose next page begins there; null: it gave way. It is the caller's until it is put back.
    std::shared_ptr<ListingAhead> take(const std::string& path, const std::string& position)
        TIERFS_EXCLUDES(mutex_);
    void put(const std::string& path, const std::string& position, std::shared_ptr<ListingAhead> listing)
        TIERFS_EXCLUDES(mutex_);

  private:
    struct Entry {
        std::string path, position;
        std::shared_ptr<ListingAhead> listing;
    };
    Mutex mutex_;
    std::list<Entry> entries_ TIERFS_GUARDED_BY(mutex_);  ///< the newest first
};

}  // namespace tierfs::s3
