#include "fs/observe/snapshot.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tierfs {
namespace {

using Json = nlohmann::json;

const Json* find(const Json& json, const char* pointer) {
    const Json::json_pointer path(pointer);
    return json.contains(path) ? &json.at(path) : nullptr;
}

std::uint64_t count(const Json& json, const char* pointer) {
    const Json* found = find(json, pointer);
    if (found == nullptr || !found->is_number()) return 0;
    const auto value = found->get<double>();
    return found->is_number_unsigned() ? found->get<std::uint64_t>()
           : value > 0 && value < 9e18 ? static_cast<std::uint64_t>(value)
                                       : 0;
}

double real(const Json& json, const char* pointer) {
    const Json* found = find(json, pointer);
    return found != nullptr && found->is_number() ? found->get<double>() : 0;
}

std::string text(const Json& json, const char* pointer) {
    const Json* found = find(json, pointer);
    return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

bool truth(const Json& json, const char* pointer, bool otherwise) {
    const Json* found = find(json, pointer);
    return found != nullptr && found->is_boolean() ? found->get<bool>() : otherwise;
}

/// An array of objects, or an empty one.
std::vector<Json> objects(const Json& json, const char* pointer) {
    std::vector<Json> out;
    const Json* found = find(json, pointer);
    if (found == nullptr || !found->is_array()) return out;
    std::copy_if(found->begin(), found->end(), std::back_inserter(out),
                 [](const Json& one) { return one.is_object(); });
    return out;
}

LatencyStats latency(const Json& sample, const std::string& name) {
    LatencyStats out;
    out.sum_us = count(sample, ("/latency/" + name + "/sum_us").c_str());
    const Json* buckets = find(sample, ("/latency/" + name + "/buckets").c_str());
    if (buckets == nullptr || !buckets->is_array()) return out;
    for (std::size_t i = 0; i < std::min(buckets->size(), LatencyStats::kBuckets); ++i) {
        if (buckets->at(i).is_number_unsigned()) out.counts.at(i) = buckets->at(i).get<std::uint64_t>();
    }
    return out;
}

TierSample read_tier(const Json& tier) {
    return {count(tier, "/limit_bytes"), count(tier, "/used_bytes"),    count(tier, "/hits"),
            count(tier, "/misses"),      count(tier, "/evicted_bytes"), count(tier, "/written_bytes"),
            count(tier, "/dropped"),     text(tier, "/state")};
}

void read_tiers(const Json& sample, Snapshot& out) {
    for (const Json& tier : objects(sample, "/tiers")) {
        if (text(tier, "/name") == "ram") out.ram = read_tier(tier);
        if (text(tier, "/name") != "nvme") continue;
        out.nvme = read_tier(tier);
        for (const Json& device : objects(tier, "/devices")) {
            out.devices.push_back({text(device, "/path"), text(device, "/state"), text(device, "/reason"),
                                   count(device, "/limit_bytes"), count(device, "/used_bytes")});
        }
    }
}

void read_datasets(const Json& sample, Snapshot& out) {
    for (const Json& dataset : objects(sample, "/datasets")) {
        const auto filled = count(dataset, "/fill/done_bytes");
        out.datasets.push_back({text(dataset, "/match"), text(dataset, "/class"),
                                truth(dataset, "/frozen", false), count(dataset, "/read_bytes"),
                                count(dataset, "/origin_bytes"), filled, count(dataset, "/bytes"),
                                count(dataset, "/fill/total_bytes"), filled});
    }
}

void read_messages(const Json& sample, Snapshot& out) {
    const Json* messages = find(sample, "/requests/messages");
    if (messages == nullptr || !messages->is_object()) return;
    for (const auto& [kind, number] : messages->items()) {
        if (!number.is_number_unsigned()) continue;
        out.messages += number.get<std::uint64_t>();
        if (kind != "READ" && kind != "WRITE" && kind != "RELEASE" && kind != "FORGET" &&
            kind != "BATCH_FORGET")
            out.metadata_messages += number.get<std::uint64_t>();
    }
}

void read_origin(const Json& sample, Snapshot& out) {
    out.gets = count(sample, "/origin/requests/get");
    out.heads = count(sample, "/origin/requests/head");
    out.lists = count(sample, "/origin/requests/list");
    out.origin_requests = out.gets + out.heads + out.lists + count(sample, "/origin/requests/put") +
                          count(sample, "/origin/requests/delete") + count(sample, "/origin/requests/other");
    out.origin_read = count(sample, "/origin/bytes_read");
    out.retries = count(sample, "/origin/retries");
    out.throttled = count(sample, "/origin/throttled");
    out.origin_errors = count(sample, "/origin/errors");
    out.hedged = count(sample, "/origin/hedged");
    out.origin_away_why = text(sample, "/origin/away_why");
    out.origin_away_s = real(sample, "/origin/away_s");
}

/// Members that only grow. What both have is subtracted; a counter that began again counts from 0.
void subtract(std::uint64_t& to, std::uint64_t from) {
    to = to >= from ? to - from : to;
}

void subtract(LatencyStats& to, const LatencyStats& from) {
    for (std::size_t i = 0; i < LatencyStats::kBuckets; ++i) subtract(to.counts.at(i), from.counts.at(i));
    subtract(to.sum_us, from.sum_us);
}

void subtract(TierSample& to, const TierSample& from) {
    for (auto member : {&TierSample::hits, &TierSample::misses, &TierSample::evicted, &TierSample::written,
                        &TierSample::dropped})
        subtract(to.*member, from.*member);
}

constexpr std::uint64_t Snapshot::*kCounters[] = {&Snapshot::reads,
                                                  &Snapshot::read_bytes,
                                                  &Snapshot::read_errors,
                                                  &Snapshot::sequential,
                                                  &Snapshot::random,
                                                  &Snapshot::ram_bytes,
                                                  &Snapshot::nvme_bytes,
                                                  &Snapshot::origin_bytes,
                                                  &Snapshot::fetched_bytes,
                                                  &Snapshot::prefetched_bytes,
                                                  &Snapshot::fetches_large_bytes,
                                                  &Snapshot::writes,
                                                  &Snapshot::write_bytes,
                                                  &Snapshot::failures,
                                                  &Snapshot::over_deadline,
                                                  &Snapshot::messages,
                                                  &Snapshot::metadata_messages,
                                                  &Snapshot::gets,
                                                  &Snapshot::heads,
                                                  &Snapshot::lists,
                                                  &Snapshot::origin_requests,
                                                  &Snapshot::origin_read,
                                                  &Snapshot::retries,
                                                  &Snapshot::throttled,
                                                  &Snapshot::origin_errors,
                                                  &Snapshot::hedged,
                                                  &Snapshot::passthrough_opens};

constexpr LatencyStats LatencySamples::*kLatencies[] = {
    &LatencySamples::ram,     &LatencySamples::nvme,        &LatencySamples::origin,
    &LatencySamples::memory,  &LatencySamples::fetch_small, &LatencySamples::fetch_large,
    &LatencySamples::metadata};

}  // namespace

Snapshot read_snapshot(const Json& sample) {
    Snapshot out;
    if (!sample.is_object()) return out;
    out.version = text(sample, "/version");
    out.mountpoint = text(sample, "/mountpoint");
    out.source = text(sample, "/source");
    out.profile = text(sample, "/profile/kind");
    out.pid = count(sample, "/pid");
    out.uptime_s = real(sample, "/uptime_s");
    out.read_only = truth(sample, "/read_only", true);
    out.reads = count(sample, "/reads/requests");
    out.read_bytes = count(sample, "/reads/bytes");
    out.read_errors = count(sample, "/reads/errors");
    out.sequential = count(sample, "/reads/sequential");
    out.random = count(sample, "/reads/random");
    out.ram_bytes = count(sample, "/reads/by_tier/ram");
    out.nvme_bytes = count(sample, "/reads/by_tier/nvme");
    out.origin_bytes = count(sample, "/reads/by_tier/origin");
    out.fetched_bytes = count(sample, "/reads/fetched_bytes");
    out.prefetched_bytes = count(sample, "/reads/prefetched_bytes");
    out.fetches_large_bytes = count(sample, "/latency/fetch_large/bytes");
    out.waiting_for_memory = count(sample, "/reads/waiting_for_memory");
    out.writes = count(sample, "/writes/requests");
    out.write_bytes = count(sample, "/writes/bytes");
    out.failures = count(sample, "/writes/failures");
    out.last_failure = text(sample, "/writes/last_failure");
    out.last_failure_age_s = real(sample, "/writes/last_failure_age_s");
    out.queued = count(sample, "/writes/queue/entries");
    out.queued_bytes = count(sample, "/writes/queue/bytes");
    out.conflicts = count(sample, "/writes/queue/conflicts");
    out.oldest_queued_s = real(sample, "/writes/queue/oldest_s");
    out.queue_error = text(sample, "/writes/queue/error");
    out.under_way = count(sample, "/requests/under_way");
    out.oldest_s = real(sample, "/requests/oldest_s");
    out.over_deadline = count(sample, "/requests/over_deadline");
    out.passthrough_opens = count(sample, "/passthrough/opens");
    out.passthrough_files = count(sample, "/passthrough/open_files");
    out.memory_limit = count(sample, "/memory/limit_bytes");
    out.memory_used = count(sample, "/memory/used_bytes");
    out.connections = count(sample, "/settings/origin.connections");
    out.prefetch_window = count(sample, "/settings/prefetch.window");
    out.source_type = text(sample, "/source_file_system/type");
    if (const Json* advice = find(sample, "/source_file_system/advice");
        advice != nullptr && advice->is_array()) {
        for (const Json& one : *advice) {
            if (one.is_string()) out.source_advice.push_back(one.get<std::string>());
        }
    }
    out.latency = {latency(sample, "read_ram"),    latency(sample, "read_nvme"),
                   latency(sample, "read_origin"), latency(sample, "memory_wait"),
                   latency(sample, "fetch_small"), latency(sample, "fetch_large"),
                   latency(sample, "metadata")};
    read_origin(sample, out);
    read_messages(sample, out);
    read_tiers(sample, out);
    read_datasets(sample, out);
    return out;
}

Snapshot difference(const Snapshot& from, const Snapshot& to) {
    Snapshot out = to;
    if (from.pid != to.pid) return out;
    for (const auto member : kCounters) subtract(out.*member, from.*member);
    for (const auto member : kLatencies) subtract(out.latency.*member, from.latency.*member);
    subtract(out.ram, from.ram);
    subtract(out.nvme, from.nvme);
    for (std::size_t i = 0; i < std::min(out.datasets.size(), from.datasets.size()); ++i) {
        subtract(out.datasets[i].read, from.datasets[i].read);
        subtract(out.datasets[i].from_origin, from.datasets[i].from_origin);
        subtract(out.datasets[i].filled, from.datasets[i].filled);
    }
    return out;
}

double stall_seconds(const Snapshot& interval) {
    return static_cast<double>(interval.latency.nvme.sum_us + interval.latency.origin.sum_us) * 1e-6;
}

}  // namespace tierfs
