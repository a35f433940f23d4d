// fs/observe/: what a mount did between two moments, for `tierfs top` (top_screen.hpp) and `tierfs doctor`
// (rules.hpp). snapshot.hpp takes it from what the control socket says. fs/commands calls it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config/base/latency_histogram.hpp"

namespace tierfs {

/// All plain values; bytes and counts. Counters are since the daemon's start in what read_snapshot returns,
/// of an interval in what difference() returns; gauges are marked.
struct TierSample {
    std::uint64_t limit = 0, used = 0;  ///< gauges
    std::uint64_t hits = 0, misses = 0, evicted = 0, written = 0, dropped = 0;
    std::string state = "off";
};

struct DeviceSample {
    std::string path, state, reason;
    std::uint64_t limit = 0, used = 0;
};

struct DatasetSample {
    std::string match, current;
    bool frozen = false;
    std::uint64_t read = 0, from_origin = 0, filled = 0;
    std::uint64_t kept = 0, fill_total = 0, filled_so_far = 0;  ///< gauges
};

struct LatencySamples {
    LatencyStats ram, nvme, origin, memory, fetch_small, fetch_large, metadata;
};

struct Snapshot {
    std::string version, mountpoint, source, profile;
    std::uint64_t pid = 0;
    double uptime_s = 0;
    bool read_only = true;
    std::uint64_t reads = 0, read_bytes = 0, read_errors = 0, sequential = 0, random = 0;
    std::uint64_t ram_bytes = 0, nvme_bytes = 0, origin_bytes = 0;
    std::uint64_t fetched_bytes = 0, prefetched_bytes = 0, fetches_large_bytes = 0;
    std::uint64_t writes = 0, write_bytes = 0;
    std::uint64_t failures = 0;  ///< of a writable mount; see StatusInputs
    std::string last_failure;
    double last_failure_age_s = 0;
    std::uint64_t queued = 0, queued_bytes = 0,
                  conflicts = 0;                          ///< gauges: of writes=back, since the mount began
    double oldest_queued_s = 0;                           ///< gauge
    std::string queue_error;                              ///< gauge
    std::uint64_t waiting_for_memory = 0, under_way = 0;  ///< gauges
    double oldest_s = 0;                                  ///< gauge
    std::uint64_t over_deadline = 0, messages = 0, metadata_messages = 0;
    std::uint64_t passthrough_opens = 0, passthrough_files = 0;  ///< the files: gauge
    std::uint64_t gets = 0, heads = 0, lists = 0, origin_requests = 0, origin_read = 0, retries = 0,
                  throttled = 0, origin_errors = 0, hedged = 0;
    std::string origin_away_why;  ///< gauge; empty: the origin answers
    double origin_away_s = 0;     ///< gauge
    TierSample ram, nvme;
    std::vector<DeviceSample> devices;
    std::uint64_t memory_limit = 0, memory_used = 0;
    LatencySamples latency;
    std::vector<DatasetSample> datasets;
    std::uint64_t connections = 0, prefetch_window = 0;  ///< settings
    std::string source_type;                             ///< file system of a source directory
    std::vector<std::string> source_advice;
};

/// Of what the command "sample" (or "status" of an earlier version) says. Never fails: what is missing, or is
/// of another type, is left at its default.
Snapshot read_snapshot(const nlohmann::json& sample);

/// `to` with counters of the time between the two. Where another daemon serves by then its counters have
/// begun at 0.
Snapshot difference(const Snapshot& from, const Snapshot& to);

/// Readers' time spent waiting, seconds: what the daemon took to answer reads that were not in RAM.
double stall_seconds(const Snapshot& interval);

}  // namespace tierfs
