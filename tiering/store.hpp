// The façade of tiering/: read a range of an object, from whichever tier has it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/origin.hpp"
#include "config/memory_plan.hpp"
#include "config/result.hpp"
#include "config/settings.hpp"
#include "tiering/object.hpp"
#include "tiering/policy/dataset_policy.hpp"
#include "tiering/ram/buffer.hpp"

namespace tierfs {

class NvmeTier;

/// Bytes of a read, in order, without a copy: `pieces` point into `owners`, which keep them alive.
struct ReadReply {
    std::vector<std::span<const std::byte>> pieces;
    std::vector<BufferPtr> owners;
};

using ReadCallback = std::function<void(Result<ReadReply>)>;

struct TierStats {
    std::uint64_t limit_bytes = 0, used_bytes = 0, hits = 0, misses = 0, evicted_bytes = 0, written_bytes = 0;
    std::uint64_t dropped = 0;     ///< pieces not written since the device stalled
    std::string state = "normal";  ///< normal, unstable, down
};

/// Bytes and counts since the start, but for gauges. Every byte of a reply is counted in exactly one tier:
/// `origin` for bytes that came from the origin since an application last used them, whichever buffer they
/// crossed.
struct StoreStats {
    std::uint64_t read_requests = 0, read_bytes = 0, read_errors = 0;
    std::uint64_t ram_bytes = 0, nvme_bytes = 0, origin_bytes = 0;
    std::uint64_t fetched_bytes = 0;  ///< asked of the origin, demand and readahead
    std::uint64_t prefetched_bytes = 0;
    std::uint64_t checksum_errors = 0;
    TierStats ram, nvme;
    DatasetStatus dataset;                                   ///< the whole mount is one
    std::uint64_t fill_offered_bytes = 0, filled_bytes = 0;  ///< of files looked at; of these, fetched
    std::uint64_t data_memory_bytes = 0;                     ///< arena in use (gauge)
};

/// Serves reads from RAM, NVMe and the origin, in this order, and fills the tiers on the way.
///
/// Thread-safe. `read` never blocks on the origin: a hit in RAM or NVMe calls back before read() returns
/// (NVMe costs one pread), a miss calls back later from a thread of the origin or of the store. Each object
/// range is fetched once at a time (single-flight); a reader that comes while data memory is short waits in
/// order, never ENOMEM. Errors: those of Origin::read. `nvme` may be null (no NVMe tier); it and `origin`
/// must outlive the store.
class Store {
  public:
    static Result<std::unique_ptr<Store>> open(const Settings& settings, const MemoryPlan& plan,
                                               Origin& origin, NvmeTier* nvme);
    virtual ~Store() = default;

    /// Reads [offset, offset + length) cut to the object's size; past the end: an empty reply.
    /// `callback` is called exactly once.
    virtual void read(std::shared_ptr<const ObjectRef> object, std::uint64_t offset, std::uint32_t length,
                      ReadCallback callback) = 0;

    /// Where the object's bytes are now: "ram", "nvme", "origin", or a mixture such as "ram+nvme+origin".
    [[nodiscard]] virtual std::string describe_location(const ObjectRef& object) = 0;

    [[nodiscard]] virtual StoreStats stats() const = 0;

    /// Ends readahead, answers waiting readers with ECANCELED, waits until no callback is running. Call it
    /// after Origin::stop and before the destructor; idempotent. False: some reads are held by the origin or
    /// a device beyond `patience`; the store must then not be destroyed.
    virtual bool stop(std::chrono::milliseconds patience = std::chrono::hours(24)) = 0;
};

}  // namespace tierfs
