// Single-flight: what is being fetched from the origin right now, and who waits for it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "config/base/mutex.hpp"
#include "tiering/fetch/read_operation.hpp"
#include "tiering/fetch/recent_failures.hpp"
#include "tiering/prefetch/fill_pace.hpp"
#include "tiering/ram/arena.hpp"
#include "tiering/values/unit.hpp"

namespace tierfs {

/// One request to the origin: a run of blocks of one unit. `prefetch` and `waiters` belong to the lock of the
/// object's FlightTable::Shard; the rest does not change once the flight is in the table.
struct Flight {
    struct Waiter {
        ReadOperationPtr operation;
        std::uint32_t piece = 0;  ///< in operation->pieces
        BlockMask blocks = 0;     ///< of the unit: what the piece covers
    };

    std::shared_ptr<const ObjectRef> object;
    UnitLayout layout;
    UnitKey key;
    std::uint32_t first_block = 0;
    BlockMask blocks = 0;
    ArenaBufferPtr buffer;  ///< its memory is there before the flight is: no flight waits for memory
    const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point sent{};  ///< to the origin, by send() alone
    FillPace::Request wait;                        ///< of its reader, where `is_waited_for`: likewise
    bool is_waited_for = false;
    bool is_paced = false;  ///< of the fill that nobody asked for
    bool prefetch = false;
    bool fill = false;                                ///< nobody will want it soon
    std::function<void(const Result<void>&)> landed;  ///< called once, when all else is done; may be empty
    std::vector<Waiter> waiters;
};

using FlightPtr = std::shared_ptr<Flight>;

/// All flights, by object. Two flights never share a block. A planner holds one shard's lock (an object lives
/// in one shard) while it looks, allocates and adds, so that no two readers fetch the same block.
/// Lock order: FlightTable::Shard, then RamTier's shard, then the arena.
class FlightTable {
  public:
    struct Shard {
        Mutex mutex;
        std::unordered_map<UnitKey, std::vector<FlightPtr>> flights TIERFS_GUARDED_BY(mutex);
        RecentFailures failures TIERFS_GUARDED_BY(mutex);

        /// Blocks of the unit that are under way.
        [[nodiscard]] BlockMask under_way(const UnitKey& key) const TIERFS_REQUIRES(mutex);
        void add(const FlightPtr& flight) TIERFS_REQUIRES(mutex);
        void remove(const Flight& flight) TIERFS_REQUIRES(mutex);
    };

    Shard& shard(const ContentId& id) { return shards_[id.low % shards_.size()]; }

  private:
    std::array<Shard, 16> shards_;
};

}  // namespace tierfs
