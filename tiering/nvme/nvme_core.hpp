// What the parts of the NVMe tier share. Internal to tiering/nvme and its tests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "tiering/index/index.hpp"
#include "tiering/nvme/catalog.hpp"
#include "tiering/nvme/health.hpp"
#include "tiering/nvme/location.hpp"
#include "tiering/nvme/nvme_tier.hpp"

namespace tierfs {

enum class DiskOperation { read, write, create, unlink };

/// Where a test reaches in. Empty functions cost one test of a pointer.
struct NvmeHooks {
    std::function<Health::Clock::time_point()> now;  ///< empty: the steady clock
    /// The errno that this operation fails with, or 0. Called from several threads.
    std::function<int(DiskOperation)> fault;
    std::function<void()> before_unlink;  ///< of an evicted unit, its L records being gone
    std::function<void()> after_lookup;   ///< in read(), when the file is open and not yet read
};

struct NvmeCounters {
    std::atomic<std::uint64_t> hits{0}, misses{0}, evicted_bytes{0}, written_bytes{0}, checksum_errors{0},
        dropped{0};
};

/// Records of an extent are put and erased in batches of about so many bytes.
inline constexpr std::size_t kLargestBatch = 256 * 1024;

/// One tier's shared state; every member is thread-safe or constant. Lives as long as the tier.
struct NvmeCore {
    NvmeCore(const NvmeOptions& options, NvmeHooks hooks, Index& index);

    [[nodiscard]] int fault(DiskOperation operation) const {
        return hooks.fault ? hooks.fault(operation) : 0;
    }
    [[nodiscard]] Health::Clock::time_point now() const {
        return hooks.now ? hooks.now() : Health::Clock::now();
    }
    /// The index's answer, not the cache's. Nothing on errors too: a miss.
    std::optional<Location> find_indexed(const ContentId& id);
    /// Cache, then index.
    bool locate(const ContentId& id, Location& location);
    /// One record, committed. False: the index failed, and the object stays unknown.
    bool store_location(const ContentId& id, const Location& location);
    void erase_location(const ContentId& id);
    /// Commits a batch that has grown to kLargestBatch, and begins the next: an extent can have half a
    /// million entries. False: the index failed (said in the log); the batch is lost.
    bool commit_when_large(std::unique_ptr<IndexBatch>& batch);
    bool commit(std::unique_ptr<IndexBatch> batch);

    void write_failed(const Error& error);
    void write_succeeded();
    void read_failed(int code);

    const NvmeOptions options;
    const NvmeHooks hooks;
    Index& index;
    const std::uint64_t extent_size;  ///< bytes
    const std::uint64_t max_packed;   ///< larger objects get backing files, bytes
    Catalog catalog;
    LocationCache locations;
    Health health;
    NvmeCounters counters;
    /// No extent is begun any more since the tier is full and keeps what it has.
    std::atomic<bool> extents_end{false};

  private:
    void log_state(const std::string& cause) const;
};

/// What NvmeTier::open makes, with hooks.
class NvmeTierForTests : public NvmeTier {
  public:
    /// Stops as a kill would: nothing queued is written, nothing is sealed or synced.
    virtual void abandon() = 0;
};
Result<std::unique_ptr<NvmeTierForTests>> open_nvme_tier(const NvmeOptions& options, Index& index,
                                                         NvmeHooks hooks);

}  // namespace tierfs
