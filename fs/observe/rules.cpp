// Why readers wait: each rule is a function over the facts.
#include "fs/observe/rules.hpp"

#include <algorithm>
#include <array>

#include "config/base/units.hpp"
#include "fs/observe/figures.hpp"

namespace tierfs {
namespace {

/// Everything below is about these, and they are a little work to make.
struct View {
    const Facts& facts;
    const Snapshot& s = facts.interval;
    Waits waits = waits_of(s);
    double all = std::max(waits.all(), 1e-9);
    double p50_small_ms = s.latency.fetch_small.percentile_us(0.5) / 1e3;
    std::uint64_t fetches = s.latency.fetch_small.count() + s.latency.fetch_large.count();
    /// Little's law: how many of something were under way on average.
    double fetches_under_way =
        of(s.latency.fetch_small.sum_us + s.latency.fetch_large.sum_us) * 1e-6 / facts.seconds;
    double readers = waits.all() / facts.seconds;
    double mean_read = of(s.read_bytes) / std::max(of(s.reads), 1.0);  ///< bytes

    [[nodiscard]] double share(double seconds) const { return std::clamp(seconds / all, 0.0, 1.0); }
    [[nodiscard]] bool waits_for_origin() const { return share(waits.origin) >= 0.25; }
};

using Found = std::optional<Finding>;

constexpr double kReadOfStream = 96 << 10;
constexpr double kSlowAnswerMs = 100;    // object stores of the same region answer in 10 to 50 ms
constexpr double kSlowConnection = 5e6;  // bytes a second on one connection; S3 sends some 80 MB/s
constexpr double kSlowDeviceMs = 5;      // NVMe answers in 0.1 ms, a busy one in 1

Found throttled(const View& v) {
    const double share = v.s.gets > 0 ? of(v.s.throttled) / of(v.s.gets) : 0;
    if (v.s.throttled < 3 || share < 0.01 || !v.waits_for_origin()) return {};
    return Finding{"origin-throttled",
                   v.share(v.waits.origin),
                   "The origin asks for fewer requests (throttling).",
                   amount(of(v.s.throttled)) + " of " + amount(of(v.s.origin_requests)) +
                       " requests were refused (503, 429) and repeated; " + amount(v.fetches_under_way) +
                       " fetches were under way on average",
                   {"ask the service for a higher limit of requests, or spread the keys over more prefixes",
                    "lower origin.connections (now " + std::to_string(v.s.connections) +
                        ") on each node, so that all nodes together stay below the limit",
                    "keep more of the dataset on the nodes (nvme.limit), so that fewer requests are needed"}};
}

Found memory_short(const View& v) {
    if (v.share(v.waits.memory) < 0.1 || v.s.latency.memory.count() < 3) return {};
    return Finding{"memory-limit",
                   v.share(v.waits.memory),
                   "Reads wait for data memory: memory.limit is too low.",
                   amount(of(v.s.latency.memory.count())) + " reads waited " +
                       latency_text(v.s.latency.memory.percentile_us(0.5)) + " (p50) for memory; " +
                       format_size(v.s.memory_used) + " of " + format_size(v.s.memory_limit) + " are in use",
                   {"raise memory.limit (now " + format_size(v.s.memory_limit) +
                        "): each reader of large files needs some "
                        "16 MiB, and readahead as much again",
                    "or let fewer processes read at a time"}};
}

Found slow_device(const View& v) {
    const LatencyStats& nvme = v.s.latency.nvme;
    const auto unwell = std::find_if(v.s.devices.begin(), v.s.devices.end(), [](const DeviceSample& device) {
        return device.state != "normal" && device.state != "full";
    });
    const bool sick = unwell != v.s.devices.end();
    const bool slow =
        nvme.count() >= 5 && nvme.percentile_us(0.5) / 1e3 >= kSlowDeviceMs && v.share(v.waits.nvme) >= 0.25;
    if (!slow && !sick) return {};
    std::string evidence = "reads from the NVMe tier take " + latency_text(nvme.percentile_us(0.5)) +
                           " (p50), " + latency_text(nvme.percentile_us(0.95)) + " (p95)";
    if (sick)
        evidence += "; " + unwell->path + " is " + unwell->state +
                    (unwell->reason.empty() ? "" : ": " + unwell->reason);
    const double share = sick && !slow ? std::max(v.share(v.waits.nvme), 0.1) : v.share(v.waits.nvme);
    return Finding{"cache-device-slow",
                   share,
                   "A device of the NVMe tier is slow.",
                   evidence,
                   {"see what else uses the device (iostat -x, nvme smart-log), and whether it is a local "
                    "NVMe device at all",
                    "give the tier other devices, or several (nvme.path=/nvme0:/nvme1)"}};
}

/// Readahead that is off leaves each read of a stream to wait for its own fetch. Then nobody looks for
/// streams, either: they are told by the size of their reads, which the kernel makes as large as its
/// read-ahead.
Found readahead_off(const View& v) {
    const std::uint64_t reads = v.s.sequential + v.s.random;
    if (v.s.prefetch_window != 0 || reads < 3 || v.mean_read < kReadOfStream || !v.waits_for_origin())
        return {};
    return Finding{"readahead-off",
                   v.share(v.waits.origin),
                   "Large files are read from start to end, and readahead is off.",
                   amount(of(reads)) + " reads of large files, of " + size_text(v.mean_read) +
                       " on average; prefetch.window is 0",
                   {"set prefetch.window (default 64M)"}};
}

Found cache_too_small(const View& v) {
    const bool has_nvme = v.s.nvme.state != "off" && v.s.nvme.limit != 0;
    const TierSample& tier = has_nvme ? v.s.nvme : v.s.ram;
    const bool frozen = std::any_of(v.s.datasets.begin(), v.s.datasets.end(),
                                    [](const DatasetSample& one) { return one.frozen && one.read > 0; });
    const bool full = tier.limit != 0 && of(tier.used) >= 0.8 * of(tier.limit);
    const double from_origin = of(v.s.origin_bytes) / std::max(of(v.s.read_bytes), 1.0);
    if (!v.waits_for_origin() || from_origin < 0.1 || !(frozen || tier.evicted > 0 || full) ||
        (!has_nvme && !frozen && !full))
        return {};
    const std::string setting = has_nvme ? "nvme.limit" : "memory.limit";
    std::string evidence = amount(100 * from_origin) + " % of the bytes came from the origin; the " +
                           (has_nvme ? "NVMe" : "RAM") + " tier holds " + format_size(tier.used) + " of " +
                           format_size(tier.limit);
    if (tier.evicted > 0) evidence += ", and gave up " + format_size(tier.evicted) + " meanwhile";
    if (frozen) evidence += "; it is frozen: full, and kept as it is";
    return Finding{"cache-too-small",
                   v.share(v.waits.origin),
                   "The cache is smaller than what is read again and again.",
                   evidence,
                   {"raise " + setting +
                        (has_nvme ? ", or add devices (nvme.path)" : ", or give it an NVMe tier (nvme.path)"),
                    "let each node read the same part of the dataset in each epoch (fill.shard)"}};
}

Found random_reads(const View& v) {
    if (v.s.random < 20 || v.s.random < 3 * v.s.sequential || v.mean_read >= kReadOfStream) return {};
    if (!v.waits_for_origin()) return {};
    if (v.s.latency.fetch_small.count() < v.s.latency.fetch_large.count()) return {};
    return Finding{
        "random-reads",
        v.share(v.waits.origin),
        "Large files are read in small pieces at random.",
        amount(of(v.s.random)) + " reads of large files were at random, " + amount(of(v.s.sequential)) +
            " in order; a fetch brings " +
            format_size(v.s.fetched_bytes / std::max<std::uint64_t>(v.fetches, 1)) + " and takes " +
            latency_text(v.p50_small_ms * 1e3),
        {"read such files in order, in pieces of 1 MiB or more (shuffle among shards, not within them)",
         "or bring them to NVMe first: tierfs warm PATH --wait, or a rule of datasets with class: pin"}};
}

Found slow_origin(const View& v) {
    if (!v.waits_for_origin() || v.s.latency.fetch_small.count() < 3 || v.p50_small_ms < kSlowAnswerMs)
        return {};
    return Finding{
        "origin-latency",
        v.share(v.waits.origin),
        "The origin answers slowly.",
        "a fetch of up to 256 KiB takes " + latency_text(v.p50_small_ms * 1e3) + " (p50), " +
            latency_text(v.s.latency.fetch_small.percentile_us(0.95)) + " (p95); " +
            amount(v.fetches_under_way) + " of " + std::to_string(v.s.connections) +
            " connections are in use",
        {"use an endpoint near this node (region, s3.endpoint), and see whether the server is overloaded",
         "read with more processes, so that more requests are under way at a time",
         "bring the dataset in before it is read: tierfs warm PATH, or class: epoch"}};
}

Found few_connections(const View& v) {
    if (!v.waits_for_origin() || v.s.connections == 0 || v.fetches_under_way < 0.9 * of(v.s.connections))
        return {};
    return Finding{"origin-connections",
                   v.share(v.waits.origin),
                   "All connections to the origin are in use.",
                   amount(v.fetches_under_way) +
                       " fetches were under way on average; origin.connections is " +
                       std::to_string(v.s.connections),
                   {"raise origin.connections, if the server and the network bear more"}};
}

Found slow_network(const View& v) {
    const LatencyStats& large = v.s.latency.fetch_large;
    if (!v.waits_for_origin() || large.count() < 3 || v.waits.origin <= 0) return {};
    const double per_connection = of(v.s.fetches_large_bytes) / std::max(of(large.sum_us) * 1e-6, 1e-6);
    if (per_connection > kSlowConnection) return {};
    return Finding{"origin-bandwidth",
                   v.share(v.waits.origin),
                   "The origin, or the network to it, sends too slowly.",
                   size_text(of(v.s.origin_read) / v.facts.seconds) + "/s came in all, " +
                       size_text(per_connection) + "/s on one connection; a large fetch takes " +
                       latency_text(large.percentile_us(0.5)),
                   {"compare with what the network can do (iperf3 to the server); of a kernel mount see "
                    "nconnect and rsize",
                    "raise origin.connections (now " + std::to_string(v.s.connections) +
                        ") if single connections are limited"}};
}

Found few_workers(const View& v) {
    const LatencyStats& small = v.s.latency.fetch_small;
    const bool few = v.readers >= 0.4 && v.readers <= 2.5 && v.fetches_under_way < 4;
    if (!few || !v.waits_for_origin() || small.count() < 5 || v.p50_small_ms < 1) return {};
    return Finding{"few-readers",
                   v.share(v.waits.origin),
                   "Too few files are read at a time.",
                   amount(v.readers) +
                       " readers wait on average, each for one answer of the origin after the other (" +
                       latency_text(v.p50_small_ms * 1e3) + ", p50); " + amount(v.fetches_under_way) +
                       " of " + std::to_string(v.s.connections) + " connections are in use",
                   {"read with more processes: num_workers of a DataLoader, and a larger prefetch_factor",
                    "say class: epoch for the dataset: tierfs then fetches ahead of all readers"}};
}

Found metadata(const View& v) {
    if (v.share(v.waits.metadata) < 0.4) return {};
    return Finding{
        "metadata",
        v.share(v.waits.metadata),
        "Readers wait for names and attributes.",
        amount(of(v.s.metadata_messages) / v.facts.seconds) + " such requests a second take " +
            latency_text(v.s.latency.metadata.percentile_us(0.5)) + " (p50), " +
            latency_text(v.s.latency.metadata.percentile_us(0.99)) + " (p99); the origin was asked for " +
            amount(of(v.s.heads)) + " attributes and " + amount(of(v.s.lists)) + " listings",
        {"raise metadata.ttl, to forever for data that do not change (or immutable: true in a rule of "
         "datasets)",
         "list directories instead of looking at each file: a listing brings the attributes of all"}};
}

Found transport(const View& v) {
    const auto kernel = v.facts.host.kernel_waiting.value_or(0);
    if (kernel < v.s.under_way + 8) return {};
    return Finding{
        "transport",
        0.2,
        "Requests wait in the kernel until a thread of the daemon takes them.",
        std::to_string(kernel) + " requests are with the kernel, " + std::to_string(v.s.under_way) +
            " with the daemon; " + amount(of(v.s.messages) / v.facts.seconds) + " messages a second",
        {"see whether the daemon gets processors (top, cgroup's cpu.max): it has two threads for each",
         "for many small files: profile=small, where an open costs no message"}};
}

Found errors(const View& v) {
    if (v.s.read_errors == 0 && v.s.over_deadline == 0) return {};
    return Finding{"errors",
                   0.05,
                   "Reads failed, or took longer than origin.deadline.",
                   amount(of(v.s.read_errors)) + " errors, " + amount(of(v.s.over_deadline)) +
                       " over the deadline, " + amount(of(v.s.retries)) + " requests repeated",
                   {"the log of the mount says which, and why"}};
}

/// Readers that wait for it are in no histogram before they are answered.
Found unreachable(const View& v) {
    if (v.s.origin_away_why.empty()) return {};
    return Finding{
        "origin-unreachable",
        1,
        "The origin does not answer.",
        "for " + amount(v.s.origin_away_s) + " s: " + v.s.origin_away_why + "; " +
            (v.s.under_way == 0 ? "nobody waits for it now"
                                : std::to_string(v.s.under_way) + " requests wait, the oldest for " +
                                      latency_text(v.s.oldest_s * 1e6)),
        {"see whether the server runs and the network leads there (curl, showmount, ls of the source)",
         "what is cached is read meanwhile; others wait until origin.deadline (nfs.mode=hard: until it is back)"}};
}

/// The cause is told for a while after it was met: nobody may try again while doctor looks.
Found failures(const View& v) {
    constexpr double kLately = 600;
    if (v.s.last_failure.empty() || v.s.last_failure_age_s > kLately) return {};
    return Finding{
        "failures",
        0.05,
        "Requests on the writable mount failed by the fault of its source, or of this host.",
        "the last one " + amount(v.s.last_failure_age_s) + " s ago: " + v.s.last_failure + "; " +
            amount(of(v.s.failures)) + " while doctor looked",
        {"the log of the mount has each with its path and the source's words",
         "EACCES: see whether the keys are still good; ESTALE: another host has replaced the file; ENOSPC: make room "
         "where local copies of what is written lie (nvme.path, else /var/tmp)"}};
}

/// Of a mount with writes=back.
Found uploads(const View& v) {
    constexpr double kLong = 600;
    if (v.s.queue_error.empty() && v.s.conflicts == 0 && v.s.oldest_queued_s < kLong) return {};
    auto evidence = std::to_string(v.s.queued) + " changes (" + format_size(v.s.queued_bytes) +
                    ") are in the journal, the oldest for " + amount(v.s.oldest_queued_s) + " s";
    if (v.s.conflicts != 0) evidence += "; " + std::to_string(v.s.conflicts) + " conflicts with other hosts";
    if (!v.s.queue_error.empty()) evidence += "; " + v.s.queue_error;
    return Finding{
        "uploads",
        0.05,
        "What was written does not come to the bucket as it should.",
        std::move(evidence),
        {"the log of the mount has each refusal, with path and the server's words; nothing is given up",
         "a conflict: compare NAME.conflict-HOST-TIME with NAME, and remove what is not wanted",
         "nothing refused, but late: the line to the bucket is slower than the job writes"}};
}

/// In the order of how particular they are, which counts where they explain the same waiting.
constexpr std::array kRules = {unreachable,     throttled,       memory_short, slow_device,
                               readahead_off,   cache_too_small, random_reads, slow_origin,
                               few_connections, slow_network,    few_workers,  metadata,
                               transport,       errors,          failures,     uploads};

/// Where memory is short readahead gives way first, which no figure shows: readers then wait for fetches that
/// would have been there.
double weight(const Finding& finding) {
    return finding.id == "memory-limit" ? std::min(2 * finding.share, 1.0) : finding.share;
}

}  // namespace

Waits waits_of(const Snapshot& interval) {
    constexpr double kMicrosecond = 1e-6;
    const LatencySamples& l = interval.latency;
    Waits waits;
    waits.memory = of(l.memory.sum_us) * kMicrosecond;
    waits.origin = of(l.origin.sum_us) * kMicrosecond;
    waits.nvme = of(l.nvme.sum_us) * kMicrosecond;
    waits.metadata = of(l.metadata.sum_us) * kMicrosecond;
    // Who waited for memory then mostly waits for a fetch, and what is left for it is no less than nothing.
    const double of_origin = std::min(waits.memory, waits.origin);
    waits.origin -= of_origin;
    waits.nvme = std::max(waits.nvme - (waits.memory - of_origin), 0.0);
    return waits;
}

std::vector<Finding> find_causes(const Facts& facts) {
    const View view{facts};
    std::vector<Finding> found;
    if (view.readers < kHardlyWaiting) {
        for (const auto& rule : {unreachable, errors, failures, uploads}) {
            if (auto failed = rule(view)) found.push_back(std::move(*failed));
        }
        return found;
    }
    for (const auto& rule : kRules) {
        if (auto finding = rule(view)) found.push_back(std::move(*finding));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Finding& a, const Finding& b) { return weight(a) > weight(b); });
    return found;
}

}  // namespace tierfs
