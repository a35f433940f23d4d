#include "fs/observe/status.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "config/base/log_lines.hpp"
#include "config/base/units.hpp"

namespace tierfs {

namespace {

using Json = nlohmann::json;

Json tier_json(const char* name, const TierStats& tier, bool present) {
    return Json{{"name", name},
                {"limit_bytes", tier.limit_bytes},
                {"used_bytes", tier.used_bytes},
                {"hits", tier.hits},
                {"misses", tier.misses},
                {"evicted_bytes", tier.evicted_bytes},
                {"pinned_bytes", tier.pinned_bytes},
                {"written_bytes", tier.written_bytes},
                {"state", present ? tier.state : "off"}};
}

Json tiers_json(const StatusInputs& in) {
    Json nvme = tier_json("nvme", in.store.nvme, in.has_nvme);
    nvme["dropped"] = in.store.nvme.dropped;
    nvme["bypassed"] = in.store.nvme.bypassed;
    nvme["unwritten_bytes"] = in.store.nvme.unwritten_bytes;
    nvme["admitted_bytes"] = in.store.nvme.admitted_bytes;
    nvme["reinserted_bytes"] = in.store.nvme.reinserted_bytes;
    nvme["codec_saved_bytes"] = in.store.nvme.codec_saved_bytes;
    nvme["unknown_codecs"] = in.store.nvme.unknown_codecs;
    nvme["devices"] = Json::array();
    for (const DeviceStats& device : in.store.nvme.devices) {
        nvme["devices"].push_back(Json{{"path", device.path},
                                       {"state", device.state},
                                       {"reason", device.reason},
                                       {"used_bytes", device.used_bytes},
                                       {"limit_bytes", device.limit_bytes}});
    }
    return Json::array({tier_json("ram", in.store.ram, in.store.ram.limit_bytes != 0), std::move(nvme)});
}

Json origin_json(const OriginStats& origin) {
    return Json{{"requests",
                 {{"get", origin.get},
                  {"head", origin.head},
                  {"list", origin.list},
                  {"put", origin.put},
                  {"delete", origin.remove},
                  {"other", origin.other}}},
                {"bytes_read", origin.bytes_read},
                {"bytes_written", origin.bytes_written},
                {"retries", origin.retries},
                {"throttled", origin.throttled},
                {"hedged", origin.hedged},
                {"hedges_won", origin.hedges_won},
                {"errors", origin.errors},
                {"away_s", origin.reach.away.count()},
                {"away_why", origin.reach.why}};
}

Json reads_json(const StoreStats& store) {
    return Json{{"requests", store.read_requests},
                {"bytes", store.read_bytes},
                {"errors", store.read_errors},
                {"fetched_bytes", store.fetched_bytes},
                {"prefetched_bytes", store.prefetched_bytes},
                {"prefetched_unused_bytes", store.prefetched_unused_bytes},
                {"checksum_errors", store.checksum_errors},
                {"sequential", store.sequential_reads},
                {"random", store.random_reads},
                {"waiting_for_memory", store.memory_waiting},
                {"by_tier",
                 {{"ram", store.ram_bytes},
                  {"nvme", store.nvme_bytes},
                  {"shared", 0},
                  {"origin", store.origin_bytes}}}};
}

Json evidence_json(const PatternEvidence& evidence) {
    return Json{
        {"visits", evidence.visits},         {"new", evidence.fresh},         {"repeats", evidence.repeats},
        {"short_gaps", evidence.short_gaps}, {"compared", evidence.compared}, {"ordered", evidence.ordered},
        {"sequential", evidence.sequential}, {"items", evidence.items},       {"bytes", evidence.bytes}};
}

Json latency_json(const LatencyStats& latency) {
    const auto percentile = [&](double share) { return std::round(latency.percentile_us(share)); };
    return Json{{"count", latency.count()},
                {"sum_us", latency.sum_us},
                {"p50_us", percentile(0.5)},
                {"p95_us", percentile(0.95)},
                {"p99_us", percentile(0.99)}};
}

struct NamedLatency {
    const char* name;
    const LatencyStats& latency;
};
std::array<NamedLatency, 7> latencies_of(const StatusInputs& in) {
    const ReadLatencies& store = in.store.latencies;
    return {NamedLatency{"read_ram", store.ram},
            {"read_nvme", store.nvme},
            {"read_origin", store.origin},
            {"memory_wait", store.memory},
            {"fetch_small", store.fetch_small},
            {"fetch_large", store.fetch_large},
            {"metadata", in.metadata}};
}

Json latencies_json(const StatusInputs& in) {
    Json all = Json::object();
    for (const auto& [name, latency] : latencies_of(in)) all[name] = latency_json(latency);
    return all;
}

Json fill_json(const StoreStats& store) {
    using Microseconds = std::chrono::microseconds;
    const FillPace::Status& pace = store.fill_pace;
    return Json{{"under_way", store.fill_under_way},
                {"window", pace.window},
                {"asked_files", pace.asked_files},
                {"sent_files", pace.sent_files},
                {"found_files", pace.found_files},
                {"quiet_us", std::chrono::duration_cast<Microseconds>(pace.quiet).count()},
                {"beside_us", std::chrono::duration_cast<Microseconds>(pace.beside).count()}};
}

// One entry a rule; the last is for what no rule is for.
Json datasets_json(const StatusInputs& in) {
    Json list = Json::array();
    for (const DatasetStatus& dataset : in.store.datasets) {
        const auto number = static_cast<std::size_t>(&dataset - in.store.datasets.data());
        const bool alone = in.store.datasets.size() == 1;
        const auto& files = in.names.files_by_rule;
        list.push_back(Json{
            {"match", dataset.match},
            {"configured", dataset.configured},
            {"codec", dataset.codec},
            {"class", dataset.current},
            {"reason", dataset.reason},
            {"decided_s", dataset.decided_s},
            {"evidence", evidence_json(dataset.evidence)},
            {"renewals", dataset.renewals},
            {"frozen", dataset.frozen},
            {"objects", alone                   ? in.names.known_nodes
                        : number < files.size() ? files[number]
                                                : 0},
            {"bytes", dataset.kept_bytes},
            {"read_bytes", dataset.read_bytes},
            {"origin_bytes", dataset.origin_bytes},
            {"fill", {{"done_bytes", dataset.filled_bytes}, {"total_bytes", dataset.fill_offered_bytes}}}});
    }
    return list;
}

// ---- for people

std::string size_at(const Json& json, const char* pointer) {
    const auto value = json.value(Json::json_pointer(pointer), std::uint64_t{0});
    return format_size(value);
}

std::string count_at(const Json& json, const char* pointer) {
    return std::to_string(json.value(Json::json_pointer(pointer), std::uint64_t{0}));
}

std::string text_at(const Json& json, const char* pointer) {
    return json.value(Json::json_pointer(pointer), std::string{});
}

std::string padded(std::string text, std::size_t width) {
    if (text.size() < width) text.append(width - text.size(), ' ');
    return text;
}

/// Of a write-back mount; empty of others.
std::string queue_text(const Json& status) {
    const Json::json_pointer queue("/writes/queue");
    if (!status.contains(queue) || !status[queue].is_object()) return {};
    auto text =
        count_at(status, "/writes/queue/entries") + " changes, " + size_at(status, "/writes/queue/bytes");
    if (status[queue].value("entries", std::uint64_t{0}) != 0)
        text += ", the oldest " + count_at(status, "/writes/queue/oldest_s") + " s old";
    if (status[queue].value("conflicts", std::uint64_t{0}) != 0)
        text += "; CONFLICTS: " + count_at(status, "/writes/queue/conflicts") + ", see the log";
    const auto error = text_at(status, "/writes/queue/error");
    return error.empty() ? text : text + "; TRIED AGAIN: " + log::escaped(error);
}

void line(std::string& out, const std::string& label, const std::string& value) {
    out += padded(label, 10) + value + "\n";
}

std::string decided_text(const Json& dataset) {
    const std::time_t when = dataset.value("decided_s", std::time_t{0});
    std::tm parts{};
    char text[64];
    if (when <= 0 || localtime_r(&when, &parts) == nullptr) return {};
    return std::strftime(text, sizeof(text), " (since %Y-%m-%d %H:%M:%S)", &parts) > 0 ? text : "";
}

/// One device that is well says no more than its tier.
void device_lines(std::string& out, const Json& tier) {
    const Json devices = tier.value("devices", Json::array());
    for (const auto& device : devices) {
        const auto state = text_at(device, "/state");
        if (devices.size() == 1 && state == "normal") continue;
        const auto reason = text_at(device, "/reason");
        out += padded("", 10) + padded(state, 10) + padded(size_at(device, "/used_bytes"), 12) +
               padded(size_at(device, "/limit_bytes"), 12) + text_at(device, "/path") +
               (reason.empty() ? "" : ": " + reason) + "\n";
    }
}

void tier_lines(std::string& out, const Json& status) {
    out += "\n" + padded("tier", 10) + padded("state", 10) + padded("used", 12) + padded("limit", 12) +
           padded("read", 12) + padded("hits", 10) + padded("misses", 10) + "evicted\n";
    for (const auto& tier : status.value("tiers", Json::array())) {
        const auto name = text_at(tier, "/name");
        out += padded(name, 10) + padded(text_at(tier, "/state"), 10) +
               padded(size_at(tier, "/used_bytes"), 12) + padded(size_at(tier, "/limit_bytes"), 12) +
               padded(size_at(status, ("/reads/by_tier/" + name).c_str()), 12) +
               padded(count_at(tier, "/hits"), 10) + padded(count_at(tier, "/misses"), 10) +
               size_at(tier, "/evicted_bytes") + "\n";
        if (count_at(tier, "/reinserted_bytes") != "0")
            out += padded("", 10) + "written " + size_at(tier, "/written_bytes") + ": " +
                   size_at(tier, "/admitted_bytes") + " that came, " + size_at(tier, "/reinserted_bytes") +
                   " moved since they are hot\n";
        if (count_at(tier, "/codec_saved_bytes") != "0")
            out += padded("", 10) + "compressed: " + size_at(tier, "/codec_saved_bytes") + " not written\n";
        if (count_at(tier, "/unwritten_bytes") != "0")
            out += padded("", 10) + size_at(tier, "/unwritten_bytes") + " are still to be written\n";
        if (count_at(tier, "/bypassed") != "0")
            out += padded("", 10) + count_at(tier, "/bypassed") +
                   " reads and searches went around a device that hesitated\n";
        device_lines(out, tier);
    }
    out += padded("origin", 44) + size_at(status, "/reads/by_tier/origin") + "\n";
}

Json comparison_json(const PackStats& pack) {
    if (pack.staleness != "list") return nullptr;
    const auto& last = pack.comparison;
    return Json{{"running", last.running}, {"ended", last.ended},       {"ended_at", last.ended_at},
                {"took_s", last.took_s},   {"changed", last.changed},   {"new", last.added},
                {"removed", last.removed}, {"too_many", last.too_many}, {"error", last.error}};
}

Json pack_json(const PackStats& pack) {
    if (pack.location.empty()) return nullptr;
    return Json{{"location", pack.location},
                {"index", pack.index},
                {"files", pack.files},
                {"reads", pack.reads},
                {"bytes", pack.bytes},
                {"requests", pack.requests},
                {"damaged", pack.damaged},
                {"failed", pack.failed},
                {"last_error", pack.last_error},
                {"staleness", pack.staleness},
                {"comparison", comparison_json(pack)}};
}

std::string comparison_text(const Json& status) {
    const auto ended = status.value(Json::json_pointer("/pack/comparison/ended_at"), std::int64_t{0});
    const auto error = text_at(status, "/pack/comparison/error");
    std::string text = "not compared with the source yet";
    if (ended != 0) {
        const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
        text = "compared with the source " + std::to_string(std::max<std::int64_t>(now - ended, 0)) +
               " s ago: " + count_at(status, "/pack/comparison/changed") + " changed, " +
               count_at(status, "/pack/comparison/new") + " new, " +
               count_at(status, "/pack/comparison/removed") + " removed";
    }
    if (status.value(Json::json_pointer("/pack/comparison/too_many"), false))
        text += "; too many to keep: the source is asked for all names, pack it again";
    return text + (error.empty() ? "" : "; the last comparison failed: " + error);
}

std::string pack_text(const Json& status) {
    const auto error = text_at(status, "/pack/last_error");
    return text_at(status, "/pack/location") + ": " + count_at(status, "/pack/reads") + " reads, " +
           size_at(status, "/pack/bytes") + " in " + count_at(status, "/pack/requests") + " requests, " +
           count_at(status, "/pack/damaged") + " damaged, " + count_at(status, "/pack/failed") + " failed" +
           (error.empty() ? "" : "; the last: " + error);
}

std::string staleness_text(const Json& status) {
    const auto policy = text_at(status, "/pack/staleness");
    if (policy == "trust") return "trust: names are those of the pack";
    if (policy == "check") return "check: names come from the source";
    return policy + ": " + comparison_text(status);
}

std::string restarts_text(const Json& status) {
    const auto restarts = status.value(Json::json_pointer("/supervisor/restarts"), std::uint64_t{0});
    const auto reason = text_at(status, "/supervisor/reason");
    std::string text;
    if (restarts != 0) text += ", taken over " + std::to_string(restarts) + " times";
    if (!reason.empty()) text += "; its death ends the mount: " + reason;
    return text;
}

}  // namespace

Json queue_json(const std::optional<PosixQueue>& queue) {
    if (!queue) return nullptr;
    return {{"entries", queue->entries},     {"bytes", queue->bytes}, {"running", queue->running},
            {"oldest_s", queue->oldest_s},   {"done", queue->done},   {"done_to", queue->done_to},
            {"conflicts", queue->conflicts}, {"room", queue->room},   {"error", queue->error}};
}

Json status_json(const StatusInputs& in) {
    Json hidden = Json::array();
    for (const auto& [reason, count] : in.names.hidden) {
        hidden.push_back(Json{{"reason", reason}, {"count", count}});
    }
    return Json{
        {"version", in.version},
        {"pid", in.pid},
        {"supervisor_pid", in.supervisor_pid},
        {"supervisor",
         {{"enabled", in.supervisor.enabled},
          {"reason", in.supervisor.reason},
          {"restarts", in.supervisor.restarts},
          {"reloads", in.supervisor.reloads},
          {"mount_uptime_s", in.supervisor.mount_uptime_s}}},
        {"mountpoint", in.mountpoint},
        {"source", in.source},
        {"source_file_system",
         {{"type", in.source_file_system.type},
          {"mountpoint", in.source_file_system.mountpoint},
          {"shared", in.source_file_system.is_shared()},
          {"advice", in.source_file_system.advice}}},
        {"read_only", in.read_only},
        {"uptime_s", in.uptime_s},
        {"profile", {{"kind", in.profile.kind}, {"reason", in.profile.reason}}},
        {"transport", {{"kind", "dev"}, {"reason", ""}}},
        {"passthrough",
         {{"enabled", in.passthrough.enabled},
          {"reason", in.passthrough.reason},
          {"opens", in.passthrough.opens},
          {"open_files", in.passthrough.open_files}}},
        {"requests",
         {{"under_way", in.requests.under_way},
          {"oldest_s", in.requests.oldest_s},
          {"over_deadline", in.requests.over_deadline},
          {"timed_out", in.requests.timed_out},
          {"interrupted", in.requests.interrupted},
          {"messages", in.messages}}},
        {"reads", reads_json(in.store)},
        {"writes",
         {{"requests", in.writes.write_requests},
          {"bytes", in.writes.write_bytes},
          {"errors", in.writes.write_errors},
          {"dirty_bytes", in.dirty_bytes},
          {"oldest_dirty_s", in.oldest_dirty_s},
          {"queue", queue_json(in.queue)},
          {"failures", in.failures.count},
          {"last_failure", in.failures.text},
          {"last_failure_age_s", in.failures.age_s}}},
        {"latency", latencies_json(in)},
        {"origin", origin_json(in.origin)},
        {"pack", pack_json(in.pack)},
        {"tiers", tiers_json(in)},
        {"memory",
         {{"limit_bytes", in.memory_limit},
          {"used_bytes", in.memory_used},
          {"peak_bytes", in.memory_peak},
          {"rss_bytes", in.memory_rss}}},
        {"pins",
         {{"paths", in.store.pins.paths},
          {"files", in.store.pins.files},
          {"bytes", in.store.pins.bytes},
          {"limit_bytes", in.store.pin_limit_bytes},
          {"refused", in.store.pins_refused}}},
        {"datasets", datasets_json(in)},
        {"fill", fill_json(in.store)},
        {"hidden_keys", std::move(hidden)},
        {"configuration",
         Json(std::map<std::string, std::string>(in.configuration.begin(), in.configuration.end()))},
    };
}

Json sample_json(const StatusInputs& in) {
    Json sample = status_json(in);
    for (const auto& [name, latency] : latencies_of(in)) sample["latency"][name]["buckets"] = latency.counts;
    sample["latency"]["fetch_large"]["bytes"] = in.store.fetches_large_bytes;
    sample["settings"] =
        Json{{"origin.connections", in.origin_connections}, {"prefetch.window", in.prefetch_window}};
    return sample;
}

std::string status_text(const Json& status) {
    std::string out;
    line(out, "mount", text_at(status, "/mountpoint") + " (" + text_at(status, "/source") + ")");
    char numbers[96];
    std::snprintf(numbers, sizeof(numbers), "%lld (supervisor %lld), up %.0f s",
                  static_cast<long long>(status.value("pid", 0LL)),
                  static_cast<long long>(status.value("supervisor_pid", 0LL)), status.value("uptime_s", 0.0));
    line(out, "daemon", numbers + restarts_text(status));
    if (status.value(Json::json_pointer("/source_file_system/shared"), false)) {
        line(out, "source",
             text_at(status, "/source_file_system/type") + ", mounted on " +
                 text_at(status, "/source_file_system/mountpoint"));
        for (const auto& advice : status["source_file_system"].value("advice", Json::array()))
            line(out, "", "remount it with " + advice.get<std::string>());
    }
    if (const auto file = text_at(status, "/configuration/log.file"); !file.empty())
        line(out, "log", log::escaped(file));
    line(out, "profile", text_at(status, "/profile/kind") + ": " + text_at(status, "/profile/reason"));
    line(out, "kernel",
         status.value(Json::json_pointer("/passthrough/enabled"), false)
             ? count_at(status, "/passthrough/opens") + " opens of files that it reads by itself, " +
                   count_at(status, "/passthrough/open_files") + " open now"
             : "reads no file by itself: " + text_at(status, "/passthrough/reason"));
    line(out, "memory",
         size_at(status, "/memory/used_bytes") + " of " + size_at(status, "/memory/limit_bytes") + ", peak " +
             size_at(status, "/memory/peak_bytes"));
    line(out, "reads",
         count_at(status, "/reads/requests") + " requests, " + size_at(status, "/reads/bytes") + ", " +
             count_at(status, "/reads/errors") + " errors");
    if (const auto queue = queue_text(status); !queue.empty()) line(out, "to upload", queue);
    if (!status.value("read_only", true)) {
        line(out, "writes",
             count_at(status, "/writes/requests") + " requests, " + size_at(status, "/writes/bytes") + ", " +
                 count_at(status, "/writes/errors") + " errors");
        const auto last = text_at(status, "/writes/last_failure");
        if (!last.empty())
            line(out, "failed",
                 count_at(status, "/writes/last_failure_age_s") + " s ago: " + log::escaped(last));
    }
    line(out, "requests",
         count_at(status, "/requests/under_way") + " under way, " +
             count_at(status, "/requests/over_deadline") + " were over their deadline");
    line(out, "origin",
         count_at(status, "/origin/requests/get") + " get, " + count_at(status, "/origin/requests/head") +
             " head, " + count_at(status, "/origin/requests/list") + " list; " +
             size_at(status, "/origin/bytes_read") + " read, " + count_at(status, "/origin/retries") +
             " retries, " + count_at(status, "/origin/errors") + " errors");
    if (const auto why = text_at(status, "/origin/away_why"); !why.empty())
        line(out, "",
             "DOES NOT ANSWER for " + count_at(status, "/origin/away_s") + " s: " + log::escaped(why));
    if (status.contains("pack") && status["pack"].is_object()) {
        line(out, "pack", pack_text(status));
        line(out, "staleness", staleness_text(status));
    }
    for (const auto& dataset : status.value("datasets", Json::array())) {
        line(out, "dataset",
             text_at(dataset, "/match") + " " + text_at(dataset, "/class") +
                 (dataset.value("frozen", false) ? ", frozen: " : ": ") + text_at(dataset, "/reason") +
                 decided_text(dataset));
    }
    if (status.value(Json::json_pointer("/pins/paths"), std::uint64_t{0}) > 0) {
        line(out, "pins",
             count_at(status, "/pins/paths") + " paths, " + size_at(status, "/pins/bytes") + " of " +
                 size_at(status, "/pins/limit_bytes") +
                 (status.value(Json::json_pointer("/pins/refused"), false) ? "; some found no room" : ""));
    }
    tier_lines(out, status);
    for (const auto& hidden : status.value("hidden_keys", Json::array())) {
        line(out, "hidden", count_at(hidden, "/count") + " keys: " + text_at(hidden, "/reason"));
    }
    return out;
}

}  // namespace tierfs
