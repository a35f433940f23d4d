#include "fs/observe/rules.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tierfs {
namespace rules_test {

/// `count` of about that latency.
LatencyStats took(std::uint64_t count, std::uint64_t us) {
    LatencyStats stats;
    stats.counts.at(LatencyStats::bucket_of(us)) = count;
    stats.sum_us = count * us;
    return stats;
}

/// Five seconds in which 8 readers waited for an origin that answers in 30 ms, of files of 100 KiB.
Facts reading() {
    Facts facts;
    facts.seconds = 5;
    facts.host.kernel_major = 6;
    facts.host.kernel_minor = 12;
    Snapshot& s = facts.interval;
    s.mountpoint = "/mnt/d";
    s.reads = 1300;
    s.read_bytes = s.origin_bytes = 130 << 20;
    s.gets = s.origin_requests = 1300;
    s.connections = 128;
    s.prefetch_window = 64 << 20;
    s.memory_limit = 4U << 30U;
    s.latency.origin = took(1300, 30'000);
    s.latency.fetch_small = took(1300, 30'000);
    s.ram = {1U << 30U, 1U << 20U, 0, 0, 0, 0, 0, "normal"};
    s.nvme = {100U << 20U, 1U << 20U, 0, 0, 0, 0, 0, "normal"};
    s.devices = {{"/nvme0", "normal", "", 100U << 20U, 1U << 20U}};
    return facts;
}

std::vector<std::string> ids(const std::vector<Finding>& findings) {
    std::vector<std::string> out;
    for (const auto& finding : findings) {
        out.push_back(finding.id);
        EXPECT_FALSE(finding.what.empty() || finding.evidence.empty() || finding.advice.empty())
            << finding.id;
        EXPECT_TRUE(finding.share >= 0 && finding.share <= 1) << finding.id;
    }
    return out;
}

std::string first(const Facts& facts) {
    const auto found = ids(find_causes(facts));
    return found.empty() ? "" : found.front();
}

TEST(Rules, AnOriginOfUsualSpeedAndEnoughReadersIsNobodysFault) {
    EXPECT_EQ(ids(find_causes(reading())), std::vector<std::string>{});
    EXPECT_NE(doctor_text(reading()).find("no rule knows why"), std::string::npos);
}

TEST(Rules, SlowOrigin) {
    auto facts = reading();
    facts.interval.latency.origin = facts.interval.latency.fetch_small = took(130, 300'000);
    EXPECT_EQ(ids(find_causes(facts)), std::vector<std::string>{"origin-latency"});
}

TEST(Rules, ThrottledOriginThoughThatMakesItSlow) {
    auto facts = reading();
    facts.interval.latency.origin = facts.interval.latency.fetch_small = took(130, 300'000);
    facts.interval.throttled = 60;
    EXPECT_EQ(first(facts), "origin-throttled");
    facts.interval.throttled = 2;
    EXPECT_EQ(first(facts), "origin-latency") << "a few are no cause";
}

TEST(Rules, FewReaders) {
    auto facts = reading();
    facts.interval.latency.origin = facts.interval.latency.fetch_small = took(160, 30'000);
    EXPECT_EQ(ids(find_causes(facts)), std::vector<std::string>{"few-readers"});
}

TEST(Rules, CacheTooSmall) {
    auto facts = reading();
    facts.interval.nvme.used = 95 << 20;
    facts.interval.nvme.evicted = 10 << 20;
    EXPECT_EQ(first(facts), "cache-too-small");
    EXPECT_NE(find_causes(facts)[0].advice[0].find("nvme.limit"), std::string::npos);
    facts.interval.nvme.evicted = 0;
    facts.interval.datasets = {{"/**", "epoch", true, 1000, 1000, 0, 0, 0, 0}};
    EXPECT_EQ(first(facts), "cache-too-small") << "frozen: nothing is evicted any more";
    facts.interval.read_bytes *= 20;
    EXPECT_EQ(first(facts), "") << "when it nearly holds all, it is large enough";
}

TEST(Rules, SlowDeviceAndOneThatIsNotWell) {
    auto facts = reading();
    facts.interval.latency.nvme = took(4000, 30'000);
    EXPECT_EQ(first(facts), "cache-device-slow");
    facts.interval.latency.nvme = took(4000, 200);
    EXPECT_EQ(first(facts), "");
    facts.interval.devices[0].state = "unstable";
    facts.interval.devices[0].reason = "reads take long";
    EXPECT_EQ(first(facts), "cache-device-slow");
    EXPECT_NE(find_causes(facts)[0].evidence.find("unstable: reads take long"), std::string::npos);
}

TEST(Rules, ReadaheadOff) {
    auto facts = reading();
    facts.interval.sequential = 900;
    EXPECT_EQ(first(facts), "");
    facts.interval.prefetch_window = 0;
    EXPECT_EQ(first(facts), "readahead-off");
    facts.interval.random = 2800;
    facts.interval.read_bytes = facts.interval.origin_bytes = 1300 * 4096;
    EXPECT_EQ(first(facts), "random-reads") << "readahead would not help these";
}

TEST(Rules, MemoryLimit) {
    auto facts = reading();
    facts.interval.latency.memory = took(600, 20'000);
    const auto waits = waits_of(facts.interval);
    EXPECT_NEAR(waits.memory, 12, 0.1);
    EXPECT_NEAR(waits.origin, 27, 0.1) << "less the time for memory";
    EXPECT_EQ(first(facts), "memory-limit");
    facts.interval.latency.fetch_small = took(1300, 150'000);
    EXPECT_EQ(first(facts), "origin-latency") << "of which there is more than twice as much";
    facts.interval.latency.memory = took(600, 26'000);
    EXPECT_EQ(first(facts), "memory-limit") << "it costs readahead, too";
}

TEST(Rules, RandomReads) {
    auto facts = reading();
    facts.interval.random = 1300;
    EXPECT_EQ(first(facts), "") << "in large pieces that is no matter";
    facts.interval.read_bytes = facts.interval.origin_bytes = 1300 * 4096;
    EXPECT_EQ(ids(find_causes(facts)), std::vector<std::string>{"random-reads"});
    facts.interval.sequential = 1300;
    EXPECT_EQ(first(facts), "");
}

TEST(Rules, SlowNetworkAndFewConnections) {
    auto facts = reading();
    facts.interval.latency.fetch_small = {};
    facts.interval.latency.fetch_large = took(100, 2'000'000);
    facts.interval.fetches_large_bytes = 100 << 20;
    EXPECT_EQ(ids(find_causes(facts)), std::vector<std::string>{"origin-bandwidth"});
    facts.interval.connections = 40;
    EXPECT_EQ(first(facts), "origin-connections");
}

TEST(Rules, Metadata) {
    auto facts = reading();
    facts.interval.latency.metadata = took(3000, 20'000);
    facts.interval.metadata_messages = 3000;
    EXPECT_EQ(first(facts), "metadata");
}

TEST(Rules, TransportAndErrors) {
    auto facts = reading();
    facts.interval.under_way = 8;
    facts.host.kernel_waiting = 9;
    EXPECT_EQ(first(facts), "");
    facts.host.kernel_waiting = 40;
    EXPECT_EQ(first(facts), "transport");
    facts.interval.read_errors = 2;
    EXPECT_EQ(ids(find_causes(facts)).back(), "errors");
}

TEST(Rules, AMountThatHardlyAnybodyWaitsForIsLeftAlone) {
    auto facts = reading();
    facts.interval.latency.origin = facts.interval.latency.fetch_small = took(1, 100'000);
    facts.interval.throttled = 100;
    EXPECT_EQ(first(facts), "");
    EXPECT_NE(doctor_text(facts).find("hardly wait"), std::string::npos);
    EXPECT_NE(doctor_text(Facts{}).find("Nobody read"), std::string::npos);
}

TEST(Rules, AnOriginThatDoesNotAnswerIsToldThoughNobodyHasWaitedToTheEnd) {
    Facts facts;
    facts.seconds = 1;
    facts.interval.origin_away_why = "connection refused";
    facts.interval.origin_away_s = 7;
    facts.interval.under_way = 3;
    facts.interval.oldest_s = 6;
    EXPECT_EQ(ids(find_causes(facts)), std::vector<std::string>{"origin-unreachable"});
    const auto said = doctor_text(facts);
    EXPECT_NE(said.find("connection refused"), std::string::npos);
    EXPECT_NE(said.find("3 requests wait for an answer"), std::string::npos) << said;
    EXPECT_EQ(said.find("Nobody read"), std::string::npos);
    auto busy = reading();
    busy.interval.origin_away_why = "connection refused";
    EXPECT_EQ(first(busy), "origin-unreachable");
}

TEST(Rules, ACacheWithLessRoomThanItMayTake) {
    Facts facts;
    facts.seconds = 1;
    Host::Device device;
    device.path = "/cache";
    device.room = {"/cache", 0, 0, 10 << 20, true, true};
    device.mountpoint = "/";
    facts.host.devices = {device};
    facts.interval.devices.push_back({"/cache", "normal", "", 100 << 20, 5 << 20});
    const auto has = [&facts](const std::string& id) {
        const auto found = ids(check_host(facts));
        return std::find(found.begin(), found.end(), id) != found.end();
    };
    EXPECT_TRUE(has("cache-room"));
    EXPECT_TRUE(has("cache-on-root"));
    facts.interval.devices[0].limit = 15 << 20;
    EXPECT_FALSE(has("cache-room"));
    facts.host.devices[0].room.is_known = false;
    facts.interval.devices[0].limit = 100 << 20;
    EXPECT_FALSE(has("cache-room")) << "nobody knows";
}

TEST(Rules, CacheRemarksAtTheMount) {
    const CacheRoom roomy{"/c", 100, 50, 1000, true, true}, tight{"/d", 100, 50, 20, true, false};
    EXPECT_TRUE(remarks_about(std::vector<CacheRoom>{roomy}, 0).empty());
    ASSERT_EQ(remarks_about({roomy, tight}, 0).size(), 1U);
    EXPECT_EQ(remarks_about({roomy, tight}, 300).size(), 2U) << "pins of more than the tier holds";
    EXPECT_EQ(remarks_about({CacheRoom{"/c", 600, 50, 1000, true, true}}, 0).size(), 1U)
        << "it could fill the root";
}

TEST(Rules, OfNothingComesNothing) {
    Facts facts;
    facts.seconds = 0.1;
    EXPECT_EQ(ids(find_causes(facts)), std::vector<std::string>{});
    EXPECT_EQ(ids(check_host(facts)), std::vector<std::string>{});
}

TEST(Rules, Host) {
    auto facts = reading();
    EXPECT_EQ(ids(check_host(facts)), std::vector<std::string>{});
    facts.host.read_ahead_kib = 16;
    facts.host.open_files = 1024;
    facts.host.kernel_minor = 8;
    facts.host.devices = {{"/nvme0", "mq-deadline", false, {}, {}, {}, {}, {}, {}, 0},
                          {"/disk", "bfq", true, {}, {}, {}, {}, {}, {}, 0}};
    facts.interval.source_type = "nfs4";
    facts.interval.source_advice = {"nconnect=8: one connection seldom fills a fast network"};
    EXPECT_EQ(ids(check_host(facts)), (std::vector<std::string>{"read-ahead", "scheduler", "rotating-disk",
                                                                "descriptors", "kernel", "source-mount"}));
    facts.host.read_ahead_kib = 512;
    facts.host.open_files = 1 << 20;
    facts.host.kernel_minor = 9;
    facts.host.devices = {{"/nvme0", "none", false, {}, {}, {}, {}, {}, {}, 0}};
    facts.interval.source_advice = {};
    EXPECT_EQ(ids(check_host(facts)), std::vector<std::string>{});
}

TEST(Rules, StreamsThatOneDeviceBounds) {
    auto facts = reading();
    facts.interval.sequential = 1000;
    facts.interval.random = 0;
    facts.host.nvme_controllers = 4;
    Host::Device device;
    device.path = "/nvme0";
    device.read_bytes_per_s = 6.5e9;
    device.controllers.resize(1);
    device.controllers[0].link_bytes_per_s = 7.9e9;
    facts.host.devices = {device};
    const std::vector<std::string> bound{"one-device"}, nothing;
    EXPECT_EQ(ids(check_host(facts)), bound);
    EXPECT_EQ(check_host(facts)[0].advice.size(), 2U);
    const auto with = [&](auto change) {
        Facts changed = facts;
        change(changed);
        return ids(check_host(changed));
    };
    EXPECT_EQ(with([](Facts& f) { f.host.nvme_controllers = 1; }), nothing) << "the host has no other";
    EXPECT_EQ(with([](Facts& f) { f.host.devices[0].read_bytes_per_s = 2e9; }), nothing);
    EXPECT_EQ(with([](Facts& f) { f.host.devices[0].controllers[0].link_bytes_per_s = 0; }), nothing);
    EXPECT_EQ(with([](Facts& f) { std::swap(f.interval.sequential, f.interval.random); }), nothing);
    EXPECT_EQ(with([](Facts& f) {
                  f.interval.sequential = 0;
                  f.interval.passthrough_files = 1;
              }),
              bound)
        << "read by the kernel itself";
    const auto idle = [&](double rate) {
        return [&, rate](Facts& f) {
            f.host.devices.push_back(device);
            f.host.devices[1].read_bytes_per_s = rate;
        };
    };
    EXPECT_EQ(with(idle(0)), bound) << "one stream lies on one of several";
    EXPECT_EQ(with(idle(2e9)), nothing) << "several give";
}

TEST(Rules, TheReportHasTheFindingsAndNoControlCharacters) {
    auto facts = reading();
    facts.interval.latency.origin = facts.interval.latency.fetch_small = took(130, 300'000);
    facts.interval.mountpoint = "/mnt/\x1b[2J";
    const auto json = doctor_json(facts);
    EXPECT_EQ(json.at("findings").at(0).at("id"), "origin-latency");
    EXPECT_NEAR(json.at("waiting_readers").get<double>(), 7.8, 0.01);
    EXPECT_NEAR(json.at("waits").at("origin").get<double>(), 1, 0.01);
    const auto text = doctor_text(facts);
    EXPECT_NE(text.find("1. The origin answers slowly. (100 % of the waiting)"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find("\\n"), std::string::npos) << text;
}

}  // namespace rules_test
}  // namespace tierfs
