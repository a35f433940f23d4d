// Which metrics there are.
#include "fs/observe/figures.hpp"
#include "fs/observe/metrics.hpp"

namespace tierfs {
namespace {

using In = const StatusInputs&;
using Kind = MetricKind;

std::string tier(std::string_view name) {
    return label("tier", name);
}

/// One sample for RAM and, where there is one, for the NVMe tier.
template <typename Value>
void by_tier(In in, Samples& samples, const Value& value) {
    if (in.store.ram.limit_bytes != 0) samples.add(tier("ram"), of(value(in.store.ram)));
    if (in.has_nvme) samples.add(tier("nvme"), of(value(in.store.nvme)));
}

std::string dataset_label(In in, const DatasetStatus& dataset) {
    // Two rules may have one pattern.
    const auto number = &dataset - in.store.datasets.data();
    return label("rule", std::to_string(number)) + "," + label("match", dataset.match);
}

template <typename Value>
void by_dataset(In in, Samples& samples, const Value& value) {
    for (const auto& dataset : in.store.datasets) samples.add(dataset_label(in, dataset), of(value(dataset)));
}

template <typename Value>
void by_device(In in, Samples& samples, const Value& value) {
    for (const auto& device : in.store.nvme.devices)
        samples.add(label("path", device.path), of(value(device)));
}

std::vector<Metric> mount_metrics() {
    return {
        {"tierfs_mount_info", Kind::gauge, "version,source,mountpoint",
         "Always 1; says what is mounted where.",
         [](In in, Samples& s) {
             s.add(label("version", in.version) + "," + label("source", in.source) + "," +
                       label("mountpoint", in.mountpoint),
                   1);
         }},
        {"tierfs_daemon_uptime_seconds", Kind::gauge, "",
         "Age of the daemon; counters begin again with each.", [](In in, Samples& s) { s.add(in.uptime_s); }},
        {"tierfs_mount_uptime_seconds", Kind::gauge, "", "Age of the mount, over all its daemons.",
         [](In in, Samples& s) { s.add(in.supervisor.mount_uptime_s); }},
        {"tierfs_daemon_restarts_total", Kind::counter, "",
         "Daemons that died and were replaced, of this mount.",
         [](In in, Samples& s) { s.add(of(in.supervisor.restarts)); }},
        {"tierfs_daemon_reloads_total", Kind::counter, "", "Times that tierfs reload changed the program.",
         [](In in, Samples& s) { s.add(of(in.supervisor.reloads)); }},
        {"tierfs_memory_limit_bytes", Kind::gauge, "", "The setting memory.limit.",
         [](In in, Samples& s) { s.add(of(in.memory_limit)); }},
        {"tierfs_memory_used_bytes", Kind::gauge, "", "Memory of the daemon that counts against the limit.",
         [](In in, Samples& s) { s.add(of(in.memory_used)); }},
        {"tierfs_memory_peak_bytes", Kind::gauge, "", "The most of it so far.",
         [](In in, Samples& s) { s.add(of(in.memory_peak)); }},
        {"tierfs_files_known", Kind::gauge, "", "Names in memory.",
         [](In in, Samples& s) { s.add(of(in.names.known_nodes)); }},
        {"tierfs_keys_hidden", Kind::gauge, "reason", "Keys of the bucket that cannot be shown as files.",
         [](In in, Samples& s) {
             for (const auto& [reason, count] : in.names.hidden) s.add(label("reason", reason), of(count));
         }},
        {"tierfs_kernel_messages_total", Kind::counter, "kind", "Messages of the kernel.",
         [](In in, Samples& s) {
             for (const auto& [kind, count] : in.messages) s.add(label("kind", kind), of(count));
         }},
        {"tierfs_requests_under_way", Kind::gauge, "", "Requests of the kernel that wait for an answer.",
         [](In in, Samples& s) { s.add(of(in.requests.under_way)); }},
        {"tierfs_request_oldest_seconds", Kind::gauge, "", "Age of the oldest of these.",
         [](In in, Samples& s) { s.add(in.requests.oldest_s); }},
        {"tierfs_requests_over_deadline_total", Kind::counter, "",
         "Requests that took longer than origin.deadline and a second.",
         [](In in, Samples& s) { s.add(of(in.requests.over_deadline)); }},
        {"tierfs_requests_timed_out_total", Kind::counter, "",
         "Of these, those that were answered with ETIMEDOUT whatever they waited for.",
         [](In in, Samples& s) { s.add(of(in.requests.timed_out)); }},
        {"tierfs_metadata_seconds", Kind::histogram, "",
         "Time to answer what is about names and attributes, listings included.",
         [](In in, Samples& s) { s.add({}, in.metadata); }},
        {"tierfs_passthrough_opens_total", Kind::counter, "",
         "Opens of files that the kernel then reads, or reads and writes, by itself.",
         [](In in, Samples& s) { s.add(of(in.passthrough.opens)); }},
        {"tierfs_passthrough_files", Kind::gauge, "", "Such files that are open now.",
         [](In in, Samples& s) { s.add(of(in.passthrough.open_files)); }},
    };
}

std::vector<Metric> read_metrics() {
    return {
        {"tierfs_read_requests_total", Kind::counter, "", "Reads that reached the daemon.",
         [](In in, Samples& s) { s.add(of(in.store.read_requests)); }},
        {"tierfs_read_errors_total", Kind::counter, "", "Of these, those that were answered with an error.",
         [](In in, Samples& s) { s.add(of(in.store.read_errors)); }},
        {"tierfs_read_bytes_total", Kind::counter, "tier",
         "Bytes read by applications, by where they were; origin: bytes that came from there since they were "
         "last used.",
         [](In in, Samples& s) {
             s.add(tier("ram"), of(in.store.ram_bytes));
             s.add(tier("nvme"), of(in.store.nvme_bytes));
             s.add(tier("origin"), of(in.store.origin_bytes));
         }},
        {"tierfs_read_seconds", Kind::histogram, "tier",
         "Time to answer a read, by the slowest tier it waited for; of ram one of 16 is timed.",
         [](In in, Samples& s) {
             s.add(tier("ram"), in.store.latencies.ram);
             s.add(tier("nvme"), in.store.latencies.nvme);
             s.add(tier("origin"), in.store.latencies.origin);
         }},
        {"tierfs_read_memory_wait_seconds", Kind::histogram, "",
         "Of reads that waited for data memory, how long; it is part of tierfs_read_seconds.",
         [](In in, Samples& s) { s.add({}, in.store.latencies.memory); }},
        {"tierfs_write_requests_total", Kind::counter, "", "Writes of applications that reached the daemon.",
         [](In in, Samples& s) { s.add(of(in.writes.write_requests)); }},
        {"tierfs_write_bytes_total", Kind::counter, "", "Bytes that they wrote.",
         [](In in, Samples& s) { s.add(of(in.writes.write_bytes)); }},
        {"tierfs_write_errors_total", Kind::counter, "", "Writes that failed.",
         [](In in, Samples& s) { s.add(of(in.writes.write_errors)); }},
        {"tierfs_fetched_bytes_total", Kind::counter, "",
         "Bytes asked of the origin, for readers and ahead of them.",
         [](In in, Samples& s) { s.add(of(in.store.fetched_bytes)); }},
        {"tierfs_prefetched_bytes_total", Kind::counter, "", "Of these, bytes of readahead.",
         [](In in, Samples& s) { s.add(of(in.store.prefetched_bytes)); }},
        {"tierfs_prefetched_unused_bytes", Kind::gauge, "", "Of these, bytes that nobody has read so far.",
         [](In in, Samples& s) { s.add(of(in.store.prefetched_unused_bytes)); }},
        {"tierfs_fill_asked_files_total", Kind::counter, "",
         "Small files that were read, from the source or from NVMe.",
         [](In in, Samples& s) { s.add(of(in.store.fill_pace.asked_files)); }},
        {"tierfs_fill_sent_files_total", Kind::counter, "",
         "Files fetched ahead without having been asked for.",
         [](In in, Samples& s) { s.add(of(in.store.fill_pace.sent_files)); }},
        {"tierfs_fill_found_files_total", Kind::counter, "",
         "About so many of these, or of what was there already, were read since.",
         [](In in, Samples& s) { s.add(of(in.store.fill_pace.found_files)); }},
        {"tierfs_checksum_errors_total", Kind::counter, "", "Data of the NVMe tier that were found damaged.",
         [](In in, Samples& s) { s.add(of(in.store.checksum_errors)); }},
    };
}

PosixQueue queue_of(In in) {
    return in.queue.value_or(PosixQueue());
}

std::vector<Metric> origin_metrics() {
    return {
        {"tierfs_queue_entries", Kind::gauge, "",
         "Changes that a mount with writes=back has in its journal, and is yet to bring to the bucket.",
         [](In in, Samples& s) { s.add(of(queue_of(in).entries)); }},
        {"tierfs_queue_bytes", Kind::gauge, "", "Bytes of these.",
         [](In in, Samples& s) { s.add(of(queue_of(in).bytes)); }},
        {"tierfs_queue_oldest_seconds", Kind::gauge, "", "Age of the oldest of these.",
         [](In in, Samples& s) { s.add(queue_of(in).oldest_s); }},
        {"tierfs_queue_conflicts_total", Kind::counter, "",
         "Changes that were kept beside another host's object, or not made for its sake.",
         [](In in, Samples& s) { s.add(of(queue_of(in).conflicts)); }},
        {"tierfs_queue_room_bytes", Kind::gauge, "", "Bytes that the journal takes until writers wait.",
         [](In in, Samples& s) { s.add(of(queue_of(in).room)); }},
        {"tierfs_queue_failing", Kind::gauge, "",
         "1 while something of these was refused, or could not be brought there, and is tried again.",
         [](In in, Samples& s) { s.add(queue_of(in).error.empty() ? 0 : 1); }},
        {"tierfs_origin_requests_total", Kind::counter, "kind", "Requests sent to the origin.",
         [](In in, Samples& s) {
             s.add(label("kind", "get"), of(in.origin.get));
             s.add(label("kind", "head"), of(in.origin.head));
             s.add(label("kind", "list"), of(in.origin.list));
             s.add(label("kind", "put"), of(in.origin.put));
             s.add(label("kind", "delete"), of(in.origin.remove));
             s.add(label("kind", "other"), of(in.origin.other));
         }},
        {"tierfs_origin_away_seconds", Kind::gauge, "",
         "So long the origin has not answered; 0: it answers, or is not asked.",
         [](In in, Samples& s) { s.add(in.origin.reach.away.count()); }},
        {"tierfs_origin_read_bytes_total", Kind::counter, "", "Bytes of bodies that came.",
         [](In in, Samples& s) { s.add(of(in.origin.bytes_read)); }},
        {"tierfs_origin_written_bytes_total", Kind::counter, "", "Bytes of bodies that were sent.",
         [](In in, Samples& s) { s.add(of(in.origin.bytes_written)); }},
        {"tierfs_origin_retries_total", Kind::counter, "", "Requests that were repeated.",
         [](In in, Samples& s) { s.add(of(in.origin.retries)); }},
        {"tierfs_origin_throttled_total", Kind::counter, "", "Answers that asked for fewer requests.",
         [](In in, Samples& s) { s.add(of(in.origin.throttled)); }},
        {"tierfs_origin_hedged_total", Kind::counter, "",
         "Reads that were sent a second time, since they were slow.",
         [](In in, Samples& s) { s.add(of(in.origin.hedged)); }},
        {"tierfs_origin_hedges_won_total", Kind::counter, "", "Of these, those where the second was first.",
         [](In in, Samples& s) { s.add(of(in.origin.hedges_won)); }},
        {"tierfs_origin_errors_total", Kind::counter, "", "Operations that failed.",
         [](In in, Samples& s) { s.add(of(in.origin.errors)); }},
        {"tierfs_origin_fetch_seconds", Kind::histogram, "size",
         "Time of a fetch of data from the origin; small: up to 256 KiB.",
         [](In in, Samples& s) {
             s.add(label("size", "small"), in.store.latencies.fetch_small);
             s.add(label("size", "large"), in.store.latencies.fetch_large);
         }},
    };
}

std::vector<Metric> tier_metrics() {
    return {
        {"tierfs_tier_limit_bytes", Kind::gauge, "tier", "What the tier may hold.",
         [](In in, Samples& s) { by_tier(in, s, [](const TierStats& t) { return t.limit_bytes; }); }},
        {"tierfs_tier_used_bytes", Kind::gauge, "tier", "What it holds.",
         [](In in, Samples& s) { by_tier(in, s, [](const TierStats& t) { return t.used_bytes; }); }},
        {"tierfs_tier_pinned_bytes", Kind::gauge, "tier", "Of this, what tierfs pin keeps.",
         [](In in, Samples& s) { by_tier(in, s, [](const TierStats& t) { return t.pinned_bytes; }); }},
        {"tierfs_tier_hits_total", Kind::counter, "tier", "Look-ups that found what they wanted.",
         [](In in, Samples& s) { by_tier(in, s, [](const TierStats& t) { return t.hits; }); }},
        {"tierfs_tier_misses_total", Kind::counter, "tier", "Look-ups that did not.",
         [](In in, Samples& s) { by_tier(in, s, [](const TierStats& t) { return t.misses; }); }},
        {"tierfs_tier_evicted_bytes_total", Kind::counter, "tier", "Bytes that gave way to others.",
         [](In in, Samples& s) { by_tier(in, s, [](const TierStats& t) { return t.evicted_bytes; }); }},
        {"tierfs_tier_written_bytes_total", Kind::counter, "tier", "Bytes written to the tier.",
         [](In in, Samples& s) { by_tier(in, s, [](const TierStats& t) { return t.written_bytes; }); }},
        {"tierfs_tier_writes_dropped_total", Kind::counter, "tier",
         "Pieces not written since the device stalled.",
         [](In in, Samples& s) {
             if (in.has_nvme) s.add(tier("nvme"), of(in.store.nvme.dropped));
         }},
        {"tierfs_tier_reads_bypassed_total", Kind::counter, "tier",
         "Reads, and searches for blocks, that went around a device that hesitated.",
         [](In in, Samples& s) {
             if (in.has_nvme) s.add(tier("nvme"), of(in.store.nvme.bypassed));
         }},
        {"tierfs_device_limit_bytes", Kind::gauge, "path", "What the NVMe tier may take of a device.",
         [](In in, Samples& s) { by_device(in, s, [](const DeviceStats& d) { return d.limit_bytes; }); }},
        {"tierfs_device_used_bytes", Kind::gauge, "path", "What it takes.",
         [](In in, Samples& s) { by_device(in, s, [](const DeviceStats& d) { return d.used_bytes; }); }},
        {"tierfs_device_healthy", Kind::gauge, "path",
         "1 when the device is in the state normal or full, else 0.",
         [](In in, Samples& s) {
             by_device(in, s, [](const DeviceStats& d) {
                 return d.state == "normal" || d.state == "full" ? 1U : 0U;
             });
         }},
        {"tierfs_dataset_read_bytes_total", Kind::counter, "rule,match", "Bytes read of a dataset.",
         [](In in, Samples& s) { by_dataset(in, s, [](const DatasetStatus& d) { return d.read_bytes; }); }},
        {"tierfs_dataset_origin_bytes_total", Kind::counter, "rule,match", "Of these, bytes from the origin.",
         [](In in, Samples& s) { by_dataset(in, s, [](const DatasetStatus& d) { return d.origin_bytes; }); }},
        {"tierfs_dataset_kept_bytes", Kind::gauge, "rule,match", "What the tiers hold of it.",
         [](In in, Samples& s) { by_dataset(in, s, [](const DatasetStatus& d) { return d.kept_bytes; }); }},
        {"tierfs_dataset_frozen", Kind::gauge, "rule,match",
         "1 when the tiers are full and keep what they have of it.",
         [](In in, Samples& s) {
             by_dataset(in, s, [](const DatasetStatus& d) { return d.frozen ? 1U : 0U; });
         }},
        {"tierfs_dataset_filled_bytes_total", Kind::counter, "rule,match",
         "Bytes fetched for it in the background.",
         [](In in, Samples& s) { by_dataset(in, s, [](const DatasetStatus& d) { return d.filled_bytes; }); }},
    };
}

std::vector<Metric> pack_metrics() {
    return {
        {"tierfs_pack_differing_names", Kind::gauge, "difference",
         "Names that are not as in the pack, as the last comparison with the source found them.",
         [](In in, Samples& s) {
             if (in.pack.comparison.ended == 0) return;
             s.add(label("difference", "changed"), of(in.pack.comparison.changed));
             s.add(label("difference", "new"), of(in.pack.comparison.added));
             s.add(label("difference", "removed"), of(in.pack.comparison.removed));
         }},
        {"tierfs_pack_compared_timestamp_seconds", Kind::gauge, "",
         "When the last comparison of the source with its pack ended.",
         [](In in, Samples& s) {
             if (in.pack.comparison.ended != 0) s.add(static_cast<double>(in.pack.comparison.ended_at));
         }},
        {"tierfs_pack_comparison_failed", Kind::gauge, "",
         "1 when the source could not be compared with its pack since.",
         [](In in, Samples& s) {
             if (in.pack.staleness == "list") s.add(in.pack.comparison.error.empty() ? 0 : 1);
         }},
    };
}

std::vector<Metric> make_table() {
    std::vector<Metric> all = mount_metrics();
    for (auto part : {read_metrics(), origin_metrics(), pack_metrics(), tier_metrics()})
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

}  // namespace

const std::vector<Metric>& metrics_table() {
    static const std::vector<Metric> table = make_table();
    return table;
}

}  // namespace tierfs
