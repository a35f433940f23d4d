#include "fs/observe/status.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tierfs {
namespace status_test {

using Json = nlohmann::json;

StatusInputs inputs() {
    StatusInputs in;
    in.version = "0.1.0";
    in.mountpoint = "/mnt/d";
    in.source = "s3://b/p";
    in.pid = 4711;
    in.supervisor_pid = 4709;
    in.uptime_s = 12.5;
    in.profile = ProfileStatus{"small", "because"};
    in.has_nvme = true;
    in.store.read_requests = 3;
    in.store.read_bytes = 100;
    in.store.ram_bytes = 10;
    in.store.nvme_bytes = 20;
    in.store.origin_bytes = 70;
    in.store.ram.limit_bytes = 1000;
    in.store.nvme.used_bytes = 55;
    in.store.nvme.devices = {{"/nvme/cache", "unstable", "it was slow", 100, 55}};
    in.origin.get = 7;
    in.origin.remove = 1;
    in.names.hidden = {{"empty path component", 4}};
    in.messages = {{"READ", 7}};
    in.memory_limit = 1 << 20;
    in.memory_peak = 4096;
    in.configuration = {{"metadata.ttl", "60s"}};
    in.store.datasets.emplace_back();
    in.store.datasets[0].current = "epoch";
    in.store.datasets[0].reason = "of 128 visits";
    in.store.datasets[0].decided_s = 1800000000;
    in.store.datasets[0].frozen = true;
    in.store.datasets[0].evidence.short_gaps = 17;
    return in;
}

TEST(Status, HasEveryPromisedMember) {
    const auto promised = Json::parse(R"({
      "version": "", "pid": 0, "supervisor_pid": 0, "mountpoint": "", "source": "", "read_only": true,
      "supervisor": {"enabled": true, "reason": "", "restarts": 0, "mount_uptime_s": 0.5},
      "uptime_s": 0.5, "profile": {"kind": "", "reason": ""}, "transport": {"kind": "", "reason": ""},
      "passthrough": {"enabled": true, "reason": "", "opens": 0, "open_files": 0},
      "requests": {"under_way": 0, "oldest_s": 0.5, "over_deadline": 0, "timed_out": 0, "interrupted": 0,
                   "messages": {"READ": 0}},
      "reads": {"requests": 0, "bytes": 0, "errors": 0,
                "by_tier": {"ram": 0, "nvme": 0, "shared": 0, "origin": 0}},
      "writes": {"requests": 0, "bytes": 0, "errors": 0, "dirty_bytes": 0, "oldest_dirty_s": 0.0,
                 "queue": null,
                 "failures": 0, "last_failure": "", "last_failure_age_s": 0.0},
      "origin": {"requests": {"get": 0, "head": 0, "list": 0, "put": 0, "delete": 0, "other": 0},
                 "bytes_read": 0, "bytes_written": 0, "retries": 0, "throttled": 0, "hedged": 0,
                 "hedges_won": 0, "errors": 0, "away_s": 0.5, "away_why": ""},
      "tiers": [{"name": "ram", "limit_bytes": 0, "used_bytes": 0, "hits": 0, "misses": 0, "evicted_bytes": 0,
                 "written_bytes": 0, "state": "normal"},
                {"name": "nvme", "limit_bytes": 0, "used_bytes": 0, "hits": 0, "misses": 0,
                 "evicted_bytes": 0, "written_bytes": 0, "state": "normal", "dropped": 0,
                 "bypassed": 0, "unwritten_bytes": 0,
                 "devices": [{"path": "", "state": "", "used_bytes": 0, "limit_bytes": 0}]}],
      "memory": {"limit_bytes": 0, "used_bytes": 0, "peak_bytes": 0, "rss_bytes": 0},
      "datasets": [{"match": "", "configured": "", "class": "", "reason": "", "frozen": false, "objects": 0,
                    "bytes": 0, "decided_s": 0, "renewals": 0, "evidence": {"visits": 0, "new": 0, "repeats": 0,
                    "short_gaps": 0, "compared": 0, "ordered": 0, "sequential": 0, "items": 0, "bytes": 0},
                    "fill": {"done_bytes": 0, "total_bytes": 0}}],
      "fill": {"under_way": 0, "window": 0, "asked_files": 0, "sent_files": 0, "found_files": 0, "quiet_us": 0,
               "beside_us": 0},
      "hidden_keys": [{"reason": "", "count": 0}], "configuration": {"metadata.ttl": ""}})");
    const auto status = status_json(inputs());
    const auto flat = status.flatten();
    const auto wanted = promised.flatten();
    for (const auto& [pointer, value] : wanted.items()) {
        ASSERT_TRUE(flat.contains(pointer)) << pointer;
        if (value.is_number()) {
            EXPECT_TRUE(flat[pointer].is_number()) << pointer;
        } else {
            EXPECT_EQ(flat[pointer].type(), value.type()) << pointer;
        }
    }
}

TEST(Status, SaysWhatWasCounted) {
    const auto status = status_json(inputs());
    EXPECT_EQ(status["pid"], 4711);
    EXPECT_EQ(status["profile"]["kind"], "small");
    EXPECT_EQ(status["reads"]["by_tier"], (Json{{"ram", 10}, {"nvme", 20}, {"shared", 0}, {"origin", 70}}));
    EXPECT_EQ(status["requests"]["messages"]["READ"], 7);
    EXPECT_EQ(status["origin"]["requests"]["get"], 7);
    EXPECT_EQ(status["origin"]["requests"]["delete"], 1);
    EXPECT_EQ(status["tiers"][1]["devices"][0]["path"], "/nvme/cache");
    EXPECT_EQ(status["tiers"][1]["devices"][0]["used_bytes"], 55);
    EXPECT_EQ(status["hidden_keys"][0]["count"], 4);
    const auto& dataset = status["datasets"][0];
    EXPECT_EQ(dataset["configured"], "auto");
    EXPECT_EQ(dataset["class"], "epoch");
    EXPECT_EQ(dataset["frozen"], true);
    EXPECT_EQ(dataset["decided_s"], 1800000000);
    EXPECT_EQ(dataset["evidence"]["short_gaps"], 17);
}

TEST(Status, SaysWhichTiersAreOff) {
    auto in = inputs();
    in.has_nvme = false;
    in.store.nvme.devices.clear();
    in.store.ram.limit_bytes = 0;
    const auto status = status_json(in);
    EXPECT_EQ(status["tiers"][0]["state"], "off");
    EXPECT_EQ(status["tiers"][1]["state"], "off");
    EXPECT_TRUE(status["tiers"][1]["devices"].empty());
}

TEST(Status, IsReadableForPeople) {
    const auto text = status_text(status_json(inputs()));
    for (const char* part : {"/mnt/d", "s3://b/p", "4711", "small", "7 get", "empty path component",
                             "/** epoch, frozen: of 128 visits (since 2027-01-1"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    }
}

TEST(Status, PrintsAStatusThatLacksMembers) {
    EXPECT_FALSE(status_text(Json::object()).empty());
}

}  // namespace status_test
}  // namespace tierfs
