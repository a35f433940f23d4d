// State that the parts of the NVMe tier share. Internal to tiering/nvme.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tiering/index/index.hpp"
#include "tiering/nvme/catalog.hpp"
#include "tiering/nvme/health.hpp"
#include "tiering/nvme/location.hpp"
#include "tiering/nvme/nvme_tier.hpp"
#include "tiering/nvme/scratch.hpp"
#include "tiering/nvme/unwritten.hpp"
#include "tiering/policy/read_heat.hpp"

namespace tierfs {

enum class DiskOperation { read, write, create, unlink };

/// One device of the tier: NvmeOptions, cut down to it.
struct NvmeDeviceOptions {
    std::filesystem::path directory;  ///< of this source, exists, mode 0700
    std::uint64_t limit = 0;          ///< bytes on this device
    std::uint64_t keep_free = 0;      ///< see NvmeOptions
    std::uint64_t pack_max_object = 0;
    std::uint64_t stalled_queue = 0;
};

/// What the devices of a tier have in common. Thread-safe. Outlives them.
struct NvmeShared {
    NvmeShared(Index& of_mount, std::size_t devices) : index(of_mount), present(devices) {}

    /// Whether a device with this id serves now. Its objects are left to it.
    [[nodiscard]] bool is_present(std::uint64_t device) const {
        return std::any_of(present.begin(), present.end(),
                           [&](const auto& id) { return id.load() == device; });
    }

    Index& index;
    LocationCache locations;
    ReadHeat heat;      ///< of objects in extents
    Scratch scratch;    ///< for compressed objects
    GhostTable ghosts;  ///< of objects that left extents of a small queue; a device's own time
    std::vector<std::atomic<std::uint64_t>> present;  ///< ids by place; 0: nothing there
};

/// Where a test reaches in. Empty functions cost one test of a pointer.
struct NvmeHooks {
    std::function<Health::Clock::time_point()> now;  ///< empty: the steady clock
    /// The errno that this operation fails with, or 0. Called from several threads.
    std::function<int(DiskOperation)> fault;
    /// The same, of one device.
    std::function<int(const std::filesystem::path&, DiskOperation)> fault_on;
    /// How often devices are looked at, and probed while they are not well; 0: never.
    std::chrono::milliseconds probe_interval{0};
    /// Free bytes of a device's file system; empty: as it says itself.
    std::function<std::uint64_t(const std::filesystem::path&)> available;
    std::function<void()> before_unlink;  ///< of an evicted unit, its L records being gone
    std::function<void()> after_lookup;   ///< in read(), when the file is open and not yet read
};

struct NvmeCounters {
    std::atomic<std::uint64_t> hits{0}, misses{0}, evicted_bytes{0}, written_bytes{0}, checksum_errors{0},
        dropped{0};
    std::atomic<std::uint64_t> admitted_bytes{0}, reinserted_bytes{0};  ///< of objects, written
    std::atomic<std::uint64_t> codec_saved_bytes{0};  ///< of extents: what the same objects would take more
    std::atomic<std::uint64_t> unknown_codecs{0};     ///< entries of extents that a later version wrote
    std::atomic<std::uint64_t> bypassed{0};           ///< TierStats::bypassed
    /// Gauge: buffers that wait for the writer or are in its hands, and what lies in chunks under way.
    std::atomic<std::uint64_t> unwritten_bytes{0};
};

/// Records of an extent are put and erased in batches of about so many bytes.
inline constexpr std::size_t kLargestBatch = 256 * 1024;

/// What the parts of one device share; every member is thread-safe or constant. Lives as long as the device
/// serves.
struct NvmeCore {
    NvmeCore(const NvmeDeviceOptions& options, std::uint64_t device_id, NvmeHooks hooks, NvmeShared& shared);

    [[nodiscard]] int fault(DiskOperation operation) const {
        if (hooks.fault_on) return hooks.fault_on(options.directory, operation);
        return hooks.fault ? hooks.fault(operation) : 0;
    }
    [[nodiscard]] Health::Clock::time_point now() const {
        return hooks.now ? hooks.now() : Health::Clock::now();
    }
    struct FreeSpace {
        std::uint64_t available = 0, size = 0;  ///< bytes
    };
    /// Of the device's file system; nothing: it does not say.
    [[nodiscard]] std::optional<FreeSpace> free_space() const;
    /// What is left free there for others: nvme.keep_free, else a little.
    [[nodiscard]] std::uint64_t reserve(const FreeSpace& space) const;
    /// Whether its file system has room for so much beyond what is taken; true also where that cannot be told.
    [[nodiscard]] bool has_space(std::uint64_t bytes) const;
    /// The index's answer, not the cache's, if it may be about this device. Nothing on errors too: a miss.
    std::optional<Location> find_indexed(const ContentId& id);
    /// Whether an object that comes is remembered as one that left too early; forgets it.
    bool came_back(const ContentId& id) {
        const std::uint64_t most = limit;
        return shared.ghosts.take(id, ghosted_bytes, most - most / 10);
    }
    /// Whether the index knows a place of it on another device that serves now.
    bool is_elsewhere(const ContentId& id);
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
    void degrade(const std::string& reason);
    void give_up(const std::string& reason);
    void recovered(const std::string& reason);

    const NvmeDeviceOptions options;
    const std::uint64_t device_id;
    const NvmeHooks hooks;
    NvmeShared& shared;
    Index& index;
    LocationCache& locations;
    std::atomic<std::uint64_t> limit;  ///< bytes; options.limit at first, less while others fill the device
    const std::uint64_t extent_size;   ///< bytes
    const std::uint64_t max_packed;    ///< larger objects get backing files, bytes
    Catalog catalog;
    Health health;
    NvmeCounters counters;
    Unwritten unwritten;
    /// Of a dataset: an extent is under way, and the tier was not full when one was asked for last.
    std::array<std::atomic<bool>, kMostDatasets> extents_begun{};
    /// Of objects that left extents of a small queue: the time that `shared.ghosts` counts in.
    std::atomic<std::uint64_t> ghosted_bytes{0};

  private:
    void log_state(const std::string& cause) const;
};

/// What NvmeTier::open makes, with hooks for all of its devices.
class NvmeTierForTests : public NvmeTier {
  public:
    /// Stops as a kill would: nothing queued is written, nothing is sealed or synced.
    virtual void abandon() = 0;
};
Result<std::unique_ptr<NvmeTierForTests>> open_nvme_tier(const NvmeOptions& options, Index& index,
                                                         NvmeHooks hooks);

}  // namespace tierfs
