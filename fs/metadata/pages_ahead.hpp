// The next page of a listing, made while the kernel works on the one before. Internal to fs/metadata.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "config/base/mutex.hpp"
#include "fs/metadata/namespace.hpp"

namespace tierfs {

/// A few pages, each for whoever asks for just what it was made for. A page is as good as one that is read
/// now: it goes when any name or node has changed since it was begun, and after kLongest in any case; what
/// the kernel may keep its entries for is counted from then on. Thread-safe.
class PagesAhead {
  public:
    using Items = std::vector<DirectoryItem>;
    /// What a page was made from. `changes`: NodeTable::changes.
    struct Moment {
        std::uint64_t changes = 0;
        std::int64_t now_ns = 0;
    };
    struct Key {
        NodeId directory = 0;
        std::uint64_t after = 0;
        std::size_t limit = 0;
        friend bool operator==(const Key&, const Key&) = default;
    };

    static constexpr std::size_t kMost = 4;
    /// Entries of a page: about 300 KiB of memory. Larger ones keep the caller busy long enough.
    static constexpr std::size_t kLargest = 1024;
    static constexpr std::int64_t kLongest = 1'000'000'000;  ///< ns

    /// The page, if it is there or is being made: then it waits for it. Each is given once.
    std::optional<Items> take(const Key& key, const Moment& now) TIERFS_EXCLUDES(mutex_);
    /// Makes one on the caller's thread, unless another does or there is one. After a change spoilt one,
    /// nothing is made for kPause: while a directory is being listed each would be in vain.
    void make(const Key& key, const Moment& now, const std::function<Result<Items>()>& read)
        TIERFS_EXCLUDES(mutex_);

  private:
    static constexpr std::int64_t kPause = 100'000'000;  ///< ns
    struct Page {
        Key key;  ///< directory 0: empty
        Moment made;
        bool ready = false;
        bool wanted = false;  ///< somebody takes it, and may wait: the page is his to clear
        std::optional<Items> items;
    };
    Page* find(const Key& key) TIERFS_REQUIRES(mutex_);
    Page* place_for(const Moment& now) TIERFS_REQUIRES(mutex_);
    static bool is_old(const Page& page, const Moment& now);

    Mutex mutex_;
    std::condition_variable ready_;
    std::array<Page, kMost> pages_ TIERFS_GUARDED_BY(mutex_);
    std::int64_t spoilt_ns_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs
