// Directories beside one that is read, listed before they are asked for. Internal to fs/metadata.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <string>

#include "config/base/mutex.hpp"
#include "fs/metadata/lister.hpp"
#include "fs/metadata/node_table.hpp"

namespace tierfs {

/// Who walks a tree reads one directory after another, each for a round trip to the source: find(1), `ls -R`, cp
/// and the data sets of training scripts do it in the order of the names. Once kInOrder directories of one parent
/// were read so, those that come next are listed meanwhile: twice as many with each, kMost at most, and only
/// where a listing takes kWorthIt, and is believed for kBelieved. Whoever jumps starts anew. Thread-safe; `read` blocks for the index at most.
class DirectoriesAhead {
  public:
    static constexpr unsigned kInOrder = 3, kMost = 16;
    static constexpr std::chrono::microseconds kWorthIt{2000};
    static constexpr std::chrono::milliseconds kBelieved{2000};

    DirectoriesAhead(NodeTable& table, const Freshness& freshness, Lister& lister)
        : table_(table), freshness_(freshness), lister_(lister) {}

    /// Somebody begins to read the directory.
    void read(NodeId directory) TIERFS_EXCLUDES(mutex_);

  private:
    static constexpr std::size_t kMostOrders = 64;
    /// Directories that a walk may leave out, and still be in order.
    static constexpr std::size_t kMayLeaveOut = 3;
    /// Names that are looked at for the next directories.
    static constexpr std::size_t kMostNames = 512;
    struct Next {
        std::string name;
        NodeId node = 0;
    };
    /// Of one parent.
    struct Order {
        NodeId parent = 0;
        std::string last;        ///< read last
        std::string looked_at;   ///< names up to it have been looked at for `next`
        bool is_over = false;    ///< there are no more
        std::deque<Next> next;   ///< directories behind `last`
        std::size_t listed = 0;  ///< of `next`, the first
        unsigned in_order = 0;
    };

    Order& order_of(NodeId parent, const std::string& name) TIERFS_REQUIRES(mutex_);
    bool goes_on(Order& order, const std::string& name) TIERFS_REQUIRES(mutex_);
    void look(Order& order, std::size_t count) TIERFS_REQUIRES(mutex_);

    NodeTable& table_;
    const Freshness& freshness_;
    Lister& lister_;
    Mutex mutex_;
    std::list<Order> orders_ TIERFS_GUARDED_BY(mutex_);  ///< the one used last first
};

}  // namespace tierfs
