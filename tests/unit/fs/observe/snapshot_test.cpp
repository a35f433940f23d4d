#include "fs/observe/snapshot.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fs/observe/status.hpp"

namespace tierfs {
namespace snapshot_test {

using Json = nlohmann::json;

StatusInputs inputs() {
    StatusInputs in;
    in.mountpoint = "/mnt/d";
    in.pid = 7;
    in.has_nvme = true;
    in.store.read_requests = 10;
    in.store.origin_bytes = 70;
    in.store.latencies.origin.counts[4] = 3;
    in.store.latencies.origin.sum_us = 40;
    in.store.nvme.used_bytes = 55;
    in.store.nvme.evicted_bytes = 8;
    in.store.nvme.devices = {{"/nvme0", "unstable", "slow", 100, 55}};
    in.store.datasets.emplace_back();
    in.store.datasets[0].read_bytes = 500;
    in.messages = {{"READ", 7}, {"LOOKUP", 5}};
    in.origin_connections = 128;
    return in;
}

TEST(Snapshot, HasWhatTheSampleSays) {
    const auto got = read_snapshot(sample_json(inputs()));
    EXPECT_EQ(got.mountpoint, "/mnt/d");
    EXPECT_EQ(got.pid, 7U);
    EXPECT_EQ(got.reads, 10U);
    EXPECT_EQ(got.origin_bytes, 70U);
    EXPECT_EQ(got.latency.origin.counts[4], 3U);
    EXPECT_EQ(got.latency.origin.sum_us, 40U);
    EXPECT_EQ(got.nvme.evicted, 8U);
    ASSERT_EQ(got.devices.size(), 1U);
    EXPECT_EQ(got.devices[0].reason, "slow");
    ASSERT_EQ(got.datasets.size(), 1U);
    EXPECT_EQ(got.datasets[0].read, 500U);
    EXPECT_EQ(got.messages, 12U);
    EXPECT_EQ(got.metadata_messages, 5U);
    EXPECT_EQ(got.connections, 128U);
}

TEST(Snapshot, TakesWhateverComes) {
    for (
        const char* text :
        {"null", "[]", "7", R"({"reads": 7, "tiers": {}, "datasets": [1, {"match": 2}], "latency": []})",
         R"({"latency": {"read_ram": {"buckets": ["a", -1, 1.5], "sum_us": "x"}}, "requests": {"messages": [1]}})",
         R"({"reads": {"requests": -5}, "pid": 1e300, "tiers": [{"name": "nvme", "devices": [null]}]})"}) {
        const auto got = read_snapshot(Json::parse(text));
        EXPECT_EQ(got.reads, 0U) << text;
        EXPECT_EQ(got.latency.ram.count(), 0U) << text;
    }
}

TEST(Snapshot, ADifferenceIsOfCountersAlone) {
    const auto before = read_snapshot(sample_json(inputs()));
    auto in = inputs();
    in.store.read_requests = 25;
    in.store.latencies.origin.counts[4] = 10;
    in.store.nvme.used_bytes = 66;
    in.store.datasets[0].read_bytes = 900;
    const auto between = difference(before, read_snapshot(sample_json(in)));
    EXPECT_EQ(between.reads, 15U);
    EXPECT_EQ(between.latency.origin.counts[4], 7U);
    EXPECT_EQ(between.nvme.used, 66U);
    EXPECT_EQ(between.datasets[0].read, 400U);
}

TEST(Snapshot, AnotherDaemonHasBegunAtNothing) {
    const auto before = read_snapshot(sample_json(inputs()));
    auto in = inputs();
    in.pid = 8;
    in.store.read_requests = 3;
    EXPECT_EQ(difference(before, read_snapshot(sample_json(in))).reads, 3U);
}

}  // namespace snapshot_test
}  // namespace tierfs
