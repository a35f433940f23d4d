// Reads files out of the extents of a pack.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <string>
#include <vector>

#include "backends/origin/origin.hpp"
#include "backends/pack/format.hpp"
#include "backends/pack/packed_origin.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::pack {

/// One read of a packed file.
struct ExtentRead {
    OriginRead request;  ///< of the source; its bytes lie within the file
    ContentId id;
    Place place;
    std::uint64_t size = 0;  ///< of the file
    std::string extent;      ///< path of the extent in DEST
};

/// Asks DEST for what is needed of the extents, verifies it, and hands what DEST cannot give to the source.
/// Demand is sent at once. Of prefetch and fill a few requests are under way at a time; what waits meanwhile
/// and lies side by side in an extent is asked for together. After DEST was out of reach it is left alone for
/// some seconds.
///
/// Thread-safe. `dest` and `source` outlive it, and are stopped before it is destroyed. Does not block.
class ExtentReads {
  public:
    ExtentReads(Origin& dest, Origin& source) : dest_(dest), source_(source) {}

    void read(ExtentRead read) TIERFS_EXCLUDES(mutex_);

    /// PackedSource::read_run of what lies at `extent`, a path in DEST. Damage is counted when the objects
    /// are read one by one.
    void read_run(const std::shared_ptr<ExtentRun>& run, const std::string& extent) TIERFS_EXCLUDES(mutex_);

    /// What is counted of PackStats: from reads on.
    [[nodiscard]] PackStats stats() const TIERFS_EXCLUDES(mutex_);

  private:
    using Clock = std::chrono::steady_clock;
    /// Bytes of an extent that one request brings, and whom they are for.
    struct Batch;
    using BatchPtr = std::shared_ptr<Batch>;

    /// Some of `waiting_` that lie side by side, the first of them first.
    BatchPtr next_batch() TIERFS_REQUIRES(mutex_);
    void send(const BatchPtr& batch);
    void arrived(const BatchPtr& batch, const Result<void>& result);
    void run_arrived(ExtentRun& run, const Result<void>& result) TIERFS_EXCLUDES(mutex_);
    void note_reach(const Result<void>& result) TIERFS_EXCLUDES(mutex_);
    void finish(ExtentRead& read, std::span<const std::byte> bytes);
    void to_source(ExtentRead& read, const Error& why, bool damaged);
    [[nodiscard]] bool rests() const TIERFS_EXCLUDES(mutex_);
    void send_more() TIERFS_EXCLUDES(mutex_);

    Origin& dest_;
    Origin& source_;
    mutable Mutex mutex_;
    std::list<ExtentRead> waiting_ TIERFS_GUARDED_BY(mutex_);
    unsigned under_way_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< of prefetch and fill
    Clock::time_point rest_until_ TIERFS_GUARDED_BY(mutex_);
    PackStats stats_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs::pack
