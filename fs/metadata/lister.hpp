// Lists whole directories at the origin into the index. Internal to fs/metadata.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/base/worker_pool.hpp"
#include "fs/metadata/merger.hpp"
#include "fs/metadata/node_set.hpp"
#include "fs/metadata/node_table.hpp"
#include "fs/metadata/turns.hpp"
#include "fs/metadata/validity.hpp"

namespace tierfs {

/// One listing of a directory at a time; who asks meanwhile joins. Each page is committed as it comes, as a
/// job of its own, so that huge directories do not keep the workers from others, while the origin is asked
/// for the next one already. Names that were not in any page are erased at the end only: a listing that fails
/// half way erases nothing and leaves the old listing record. Thread-safe; callbacks run on workers.
class Lister {
  public:
    using Done = std::function<void(Result<void>)>;
    /// True: the listing is complete. False: it goes on, longer than one name is worth waiting for.
    using FirstPage = std::function<void(Result<bool>)>;

    /// `gone` hears of directories that the origin says are none.
    Lister(NodeTable& table, Merger& merger, const Freshness& freshness, const Validity& validity,
           HiddenTotals& hidden, Origin& origin, WorkerPool& workers, const Patience& patience, Turns& turns,
           std::function<void(NodeId)> gone)
        : table_(table),
          merger_(merger),
          freshness_(freshness),
          validity_(validity),
          hidden_(hidden),
          origin_(origin),
          workers_(workers),
          patience_(patience),
          turns_(turns),
          gone_(std::move(gone)) {}

    /// Lists the directory, or joins the listing under way.
    void list(NodeId directory, Done done);
    /// The same, but answers after the first page; at once (false) when that is past.
    void list_first_page(NodeId directory, FirstPage done);
    /// What the first page of a directory took lately, about; 0 before any.
    [[nodiscard]] std::chrono::microseconds usual_time() const {
        return std::chrono::microseconds(usual_us_.load(std::memory_order_relaxed));
    }

  private:
    struct Page {
        Result<ListPage> page;
        std::int64_t asked = 0;
    };
    struct Listing {
        NodeId directory = 0;
        std::string path;
        std::int64_t started = 0;
        std::string token;  ///< of the page that is asked for
        std::uint64_t entries = 0;
        unsigned without_news = 0;  ///< pages, the last of which came just now
        HiddenTotals::Counts hidden;
        NodeSet seen;
        std::string looked_up;  ///< names up to it were looked up in the index; pages come in order, mostly
        /// Files where a directory is known: they may be beside it, and the directory comes in a later page.
        std::map<std::string, Attributes> deferred;
        std::optional<Page> page;         ///< came while the one before it was taken in; Lister::mutex_
        bool taking_in = false;           ///< one page at a time; guarded by Lister::mutex_
        bool past_first_page = false;     ///< guarded by Lister::mutex_
        std::vector<Done> waiting;        ///< guarded by Lister::mutex_
        std::vector<FirstPage> hurrying;  ///< guarded by Lister::mutex_
    };
    using ListingPtr = std::shared_ptr<Listing>;

    ListingPtr join(NodeId directory, bool& is_new) TIERFS_REQUIRES(mutex_);
    void post(const ListingPtr& listing);
    /// False: a fresh listing is there already.
    Result<bool> begin(Listing& listing);
    void ask(const ListingPtr& listing);
    Page ask_origin(const std::string& path, const std::string& token);
    void arrived(const ListingPtr& listing, Page page);
    void advance(const ListingPtr& listing, const Page& arrived);
    void advance_further(const ListingPtr& listing);
    /// `as_of`: when the origin said so, at the latest.
    Result<void> take_in(Listing& listing, const ListPage& page, std::int64_t as_of);
    using Names = std::map<std::string, const Attributes*>;
    /// Which of them the index has, and what they lead to; nothing: they are to be asked for one by one.
    Result<std::optional<std::unordered_map<std::string, NodeId>>> look_up(Listing& listing,
                                                                           const Names& names);
    Result<void> take_in_entry(Listing& listing, Changes& changes, const std::string& name,
                               const Attributes& attributes, std::int64_t as_of,
                               const std::optional<Known>& existing);
    Result<void> take_in_deferred(Listing& listing);
    Result<void> erase_vanished(Listing& listing);
    Result<void> erase_names(Listing& listing, const std::vector<std::string>& names);
    Result<void> complete(Listing& listing);
    void passed_first_page(Listing& listing);
    void finish(Listing& listing, const Result<void>& result);

    NodeTable& table_;
    Merger& merger_;
    const Freshness& freshness_;
    const Validity& validity_;
    HiddenTotals& hidden_;
    Origin& origin_;
    WorkerPool& workers_;
    const Patience& patience_;
    Turns& turns_;
    const std::function<void(NodeId)> gone_;

    std::atomic<std::int64_t> usual_us_{0};
    Mutex mutex_;
    std::unordered_map<NodeId, ListingPtr> listings_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs
