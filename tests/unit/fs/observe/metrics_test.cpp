#include "fs/observe/metrics.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "fs/observe/http_responder.hpp"

namespace tierfs {
namespace metrics_test {

StatusInputs inputs() {
    StatusInputs in;
    in.version = "0.1.0";
    in.source = "/data";
    in.mountpoint = "/mnt/a \"b\"\\\n\xff";
    in.uptime_s = 12.5;
    in.has_nvme = true;
    in.store.ram.limit_bytes = 1000;
    in.store.nvme.used_bytes = 55;
    in.store.nvme.devices = {{"/nvme0", "normal", "", 100, 55}, {"/nvme1", "down", "gone", 100, 0}};
    in.store.datasets.resize(2);  // of one pattern
    in.messages = {{"READ", 7}};
    in.names.hidden = {{"empty path component", 4}};
    in.store.latencies.origin.counts[0] = 2;
    in.store.latencies.origin.counts[20] = 1;
    in.store.latencies.origin.sum_us = 1500000;
    return in;
}

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) out.push_back(line);
    return out;
}

TEST(Metrics, AreOfTheTextFormat) {
    const std::regex comment(R"(# (HELP [a-z_]+ .+|TYPE [a-z_]+ (counter|gauge|histogram)))");
    const std::regex sample(R"re(([a-z_]+)(\{([a-z]+="([^"\\]|\\["\\n])*",?)+\})? [-+0-9.e]+)re");
    std::set<std::string> series;
    const auto text = metrics_text(inputs());
    EXPECT_TRUE(text.ends_with('\n'));
    for (const auto& line : lines(text)) {
        EXPECT_TRUE(std::regex_match(line, line.starts_with('#') ? comment : sample)) << line;
        if (!line.starts_with('#')) {
            EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
        }
    }
    EXPECT_NE(text.find(R"(mountpoint="/mnt/a \"b\"\\\n?"} 1)"), std::string::npos) << text;
}

TEST(Metrics, HistogramsAddUp) {
    const auto text = metrics_text(inputs());
    for (const char* line :
         {R"(tierfs_read_seconds_bucket{tier="origin",le="1e-06"} 2)",
          R"(tierfs_read_seconds_bucket{tier="origin",le="0.524288"} 2)",
          R"(tierfs_read_seconds_bucket{tier="origin",le="1.048576"} 3)",
          R"(tierfs_read_seconds_bucket{tier="origin",le="+Inf"} 3)",
          R"(tierfs_read_seconds_sum{tier="origin"} 1.5)", R"(tierfs_read_seconds_count{tier="origin"} 3)",
          "tierfs_metadata_seconds_count 0", R"(tierfs_device_healthy{path="/nvme1"} 0)"}) {
        EXPECT_NE(text.find(std::string(line) + "\n"), std::string::npos) << line;
    }
}

TEST(Metrics, NamesFollowTheRules) {
    std::set<std::string_view> names;
    for (const Metric& metric : metrics_table()) {
        EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
        EXPECT_TRUE(metric.name.starts_with("tierfs_")) << metric.name;
        EXPECT_EQ(metric.name.ends_with("_total"), metric.kind == MetricKind::counter) << metric.name;
        EXPECT_TRUE(metric.kind != MetricKind::histogram || metric.name.ends_with("_seconds")) << metric.name;
        EXPECT_FALSE(metric.help.empty()) << metric.name;
    }
}

TEST(Metrics, TheManualPageHoldsTheTable) {
    const auto root = std::filesystem::path(__FILE__).parent_path() / "../../../..";
    std::ifstream stream(root / "man/tierfs.8");
    const std::string page((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    EXPECT_NE(page.find(metrics_man()), std::string::npos)
        << "put this between the metrics marks of man/tierfs.8:\n"
        << metrics_man();
}

TEST(HttpResponder, AnswersGetOfMetricsAndNothingElse) {
    int made = 0;
    const auto status = [&](const std::string& head) {
        const auto answer = answer_http(head, [&] { return ++made, std::string("a 1\n"); });
        EXPECT_NE(answer.find("\r\n\r\n"), std::string::npos);
        return answer.substr(9, 3) + (answer.ends_with("a 1\n") ? " with" : "");
    };
    EXPECT_EQ(status("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "200 with");
    EXPECT_EQ(status("GET /metrics?name=x HTTP/1.0\r\n\r\n"), "200 with");
    EXPECT_EQ(status("HEAD /metrics HTTP/1.1\r\n\r\n"), "200");
    EXPECT_EQ(made, 3);
    EXPECT_EQ(status("GET / HTTP/1.1\r\n\r\n"), "404");
    EXPECT_EQ(status("GET /metrics/../x HTTP/1.1\r\n\r\n"), "404");
    EXPECT_EQ(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
    for (const char* bad : {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics SPDY/1\r\n\r\n"})
        EXPECT_EQ(status(bad), "400") << bad;
    EXPECT_EQ(made, 3);
}

TEST(HttpResponder, SlowClientsDoNotHoldUpOthers) {
    const auto path = std::filesystem::temp_directory_path() / ("metrics-slow-" + std::to_string(::getpid()));
    const auto responder = HttpResponder::open({path.string(), "", 0}, [] { return std::string("a 1\n"); });
    ASSERT_TRUE(responder) << responder.error().message;
    const auto connected = [&path] {
        FileDescriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
        EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
        return client;
    };
    std::vector<FileDescriptor> slow;
    for (std::size_t i = 0; i < HttpResponder::kMostClients + 5; ++i) {
        slow.push_back(connected());
        EXPECT_EQ(::send(slow.back().get(), "GET /", 5, MSG_NOSIGNAL), 5);
    }
    const auto began = std::chrono::steady_clock::now();
    const auto client = connected();
    const std::string_view request = "GET /metrics HTTP/1.1\r\n\r\n";
    EXPECT_EQ(::send(client.get(), request.data(), request.size(), 0), std::ssize(request));
    std::string answer;
    std::array<char, 512> piece{};
    for (ssize_t got = 0; (got = ::recv(client.get(), piece.data(), piece.size(), 0)) > 0;)
        answer.append(piece.data(), static_cast<std::size_t>(got));
    EXPECT_TRUE(answer.ends_with("a 1\n")) << answer;
    EXPECT_LT(std::chrono::steady_clock::now() - began, HttpResponder::kPatience)
        << "one after the other they would have taken a minute";
}

TEST(HttpResponder, SaysWhoHasThePort) {
    const auto path = std::filesystem::temp_directory_path() / ("metrics-" + std::to_string(::getpid()));
    const ListenAddress address{path.string(), "", 0};
    const auto content = [] { return std::string(); };
    auto first = HttpResponder::open(address, content);
    ASSERT_TRUE(first) << first.error().message;
    const auto second = HttpResponder::open(address, content);
    ASSERT_FALSE(second) << "a socket that somebody serves is not taken away";
    EXPECT_NE(second.error().message.find("metrics.listen " + path.string()), std::string::npos);
    first->reset();
    EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace metrics_test
}  // namespace tierfs
