// The façade of tiering/: reads a range of an object, from whichever tier has it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/origin/object.hpp"
#include "backends/origin/origin.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/latency_histogram.hpp"
#include "config/base/result.hpp"
#include "config/memory_plan.hpp"
#include "config/settings.hpp"
#include "tiering/policy/dataset_policy.hpp"
#include "tiering/policy/pins.hpp"
#include "tiering/prefetch/fill_pace.hpp"
#include "tiering/values/read_reply.hpp"
#include "tiering/values/tier_stats.hpp"

namespace tierfs {

class NvmeTier;
class PackedSource;

/// How long reads took from their coming to the store to their answer, by the slowest tier that they waited
/// for, and requests to the origin. Errors are not in it.
struct ReadLatencies {
    LatencyStats ram;     ///< one of 16 is timed, and counted as 16
    LatencyStats nvme;    ///< nothing but devices was asked
    LatencyStats origin;  ///< a fetch was waited for, their own or one that was under way
    LatencyStats memory;  ///< of reads that waited for data memory, that part; it is in the others, too
    /// From the hand-over to the origin to its answer, of demand, readahead and fill: up to 256 KiB, where
    /// the answer's beginning takes most of the time, and larger.
    LatencyStats fetch_small, fetch_large;
};

/// Bytes and counts since the start, but for gauges. Every byte of a reply is counted in exactly one tier:
/// `origin` for bytes that came from the origin since an application last used them, whichever buffer they
/// crossed.
struct StoreStats {
    std::uint64_t read_requests = 0, read_bytes = 0, read_errors = 0;
    std::uint64_t ram_bytes = 0, nvme_bytes = 0, origin_bytes = 0;
    std::uint64_t fetched_bytes = 0;  ///< asked of the origin, demand and readahead
    std::uint64_t prefetched_bytes = 0;
    std::uint64_t prefetched_unused_bytes =
        0;  ///< of these, so far not read; those still wanted, too (gauge)
    std::uint64_t checksum_errors = 0;
    /// Of objects that are fetched in parts: reads that go on where another one ended, and the others.
    std::uint64_t sequential_reads = 0, random_reads = 0;
    ReadLatencies latencies;
    std::uint64_t fetches_large_bytes = 0;  ///< of ReadLatencies::fetch_large
    std::uint64_t memory_waiting = 0;       ///< reads that wait for data memory (gauge)
    TierStats ram, nvme;
    std::vector<DatasetStatus> datasets;  ///< by rule; the last: of what no rule is for
    Pins::Totals pins;                    ///< as they were when they were set (gauge)
    std::uint64_t pin_limit_bytes = 0;    ///< (gauge)
    FillPace::Status fill_pace;           ///< of what is fetched ahead without having been asked for
    std::uint64_t fill_under_way = 0;     ///< requests of all fills (gauge)
    bool pins_refused = false;            ///< some of what is pinned found no room
    std::uint64_t data_memory_bytes = 0;  ///< arena in use (gauge)
};

/// Serves reads from RAM, NVMe and the origin, in this order, and fills the tiers on the way.
///
/// Thread-safe. `read` never blocks on the origin: a hit in RAM or NVMe calls back before read() returns
/// (NVMe costs one pread), a miss calls back later from a thread of the origin or of the store. Each object
/// range is fetched once at a time (single-flight); a reader that comes while data memory is short waits in
/// order, never ENOMEM. Errors: those of Origin::read. `nvme` may be null (no NVMe tier), `pins` (nothing is
/// pinned but by rules) and `packed` (`origin` has no extents); they and `origin` must outlive the store.
class Store {
  public:
    static Result<std::unique_ptr<Store>> open(const Settings& settings, const MemoryPlan& plan,
                                               Origin& origin, NvmeTier* nvme, Pins* pins = nullptr,
                                               PackedSource* packed = nullptr);
    virtual ~Store() = default;

    /// Reads [offset, offset + length) cut to the object's size; past the end: an empty reply.
    /// `callback` is called exactly once.
    virtual void read(std::shared_ptr<const ObjectRef> object, std::uint64_t offset, std::uint32_t length,
                      ReadCallback callback) = 0;

    /// The object as a complete and verified file on a local device, for passthrough; nothing when there is
    /// none. Does not wait for anything but the open of a file.
    [[nodiscard]] virtual std::optional<WholeFile> whole_file(const ObjectRef& object) = 0;

    /// Where the object's bytes are now: "ram", "nvme", "origin", or a mixture such as "ram+nvme+origin".
    [[nodiscard]] virtual std::string describe_location(const ObjectRef& object) = 0;

    [[nodiscard]] virtual StoreStats stats() const = 0;

    struct Warmed {
        std::uint64_t brought = 0;  ///< bytes that were fetched
        bool unchanged = false;     ///< all of it was in the tiers
    };
    /// Brings into the tiers what they lack of an object, below readers and readahead in rank. Blocks while
    /// memory for that is short; answers once, from any thread. `stopped`: asked during the call alone; true ends it
    /// (ECANCELED) with what is under way by then. Errors: ENOSPC, the tiers have no room for
    /// it; EINVAL, its dataset is of the class none; EACCES, archived; those of Origin::read.
    virtual void warm(const std::shared_ptr<const ObjectRef>& object,
                      std::function<void(Result<Warmed>)> answer, const std::function<bool()>& stopped) = 0;
    /// The most that the tiers hold, bytes; 0: nobody knows, since what they hold is compressed.
    [[nodiscard]] virtual std::uint64_t most_held() const = 0;

    /// Gives up what the tiers hold of an object; returns how many bytes those were. The NVMe tier's space
    /// comes back when the rest of a packed object's extent goes. EBUSY: it is pinned, by a rule or a path.
    virtual Result<std::uint64_t> evict(const ObjectRef& object) = 0;

    /// Sets the class of the dataset whose rule has this pattern, until the mount ends; one that asks for all
    /// of it is filled from now on. ENOENT: there is none.
    virtual Result<void> set_class(const std::string& match, DatasetClass dataset_class) = 0;

    /// Moves what the tiers hold of an object that stands in `pins` to where it stays, and brings the rest;
    /// else as `warm`. ENOENT: it is not pinned. ENOSPC: the limit of pins, or no tier has room.
    virtual void pin(const std::shared_ptr<const ObjectRef>& object,
                     std::function<void(Result<Warmed>)> answer, const std::function<bool()>& stopped) = 0;
    /// Bytes that pins may take: pin.limit, or three quarters of the NVMe tier (of RAM where there is none).
    [[nodiscard]] virtual std::uint64_t pin_limit() const = 0;

    /// Which data is pinned, after a start, and after pins or objects changed: between begin and end of a
    /// round all that was pinned or may be stays, and `claim_pin` is called for each object that is pinned
    /// now; what was not claimed is let go by the end. `begin` is idempotent until then. One round at a time,
    /// begun and ended by one thread.
    virtual void begin_pin_round() = 0;
    /// Returns how many bytes of the object do not lie where they stay: `pin` would bring them. Does not
    /// wait for origin or devices.
    virtual std::uint64_t claim_pin(const ObjectRef& object) = 0;
    virtual void end_pin_round() = 0;

    /// To be called about once a second: what was idle for demote.idle leaves RAM.
    virtual void tick(std::chrono::steady_clock::time_point now) = 0;

    /// Ends readahead, answers waiting readers with ECANCELED, waits until no callback is running. Call it
    /// after Origin::stop and before the destructor; idempotent. False: some reads are held by the origin or
    /// a device beyond `patience`; the store must then not be destroyed.
    virtual bool stop(std::chrono::milliseconds patience = std::chrono::hours(24)) = 0;
};

}  // namespace tierfs
