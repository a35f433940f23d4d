#include "backends/http/engine.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/unit/backends/http/scripted_server.hpp"

namespace tierfs::http {
namespace engine_test {

using namespace std::chrono_literals;
using test::Gate;
using test::How;
using test::ReceivedRequest;
using test::Reply;
using test::ScriptedServer;

EngineOptions options(unsigned connections = 4) {
    EngineOptions chosen;
    chosen.connections = connections;
    return chosen;
}

Request get(const std::string& url) {
    Request request;
    request.url = url;
    request.deadline = Clock::now() + 20s;
    return request;
}

ScriptedServer::Handler always(Reply reply) {
    return [reply](const ReceivedRequest&) { return reply; };
}

std::string text(const std::vector<std::byte>& bytes) {
    std::string result;
    for (const auto byte : bytes) result += static_cast<char>(byte);
    return result;
}

TEST(HttpEngine, GetsABodyAndHeaders) {
    ScriptedServer server(always({200, {{"X-Thing", " v "}}, "hello"}));
    Engine engine(options());
    auto request = get(server.url() + "/a/../b?x=1");
    request.headers = {{"X-Sent", "1"}, {"X-Empty", ""}};
    const auto response = engine.fetch(request);
    EXPECT_EQ(response.failure, Failure::none) << response.detail;
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "hello");
    EXPECT_EQ(response.header("x-thing"), "v");
    const auto seen = server.requests().at(0);
    EXPECT_EQ(seen.target, "/a/../b?x=1");
    EXPECT_EQ(seen.header("x-sent"), "1");
    EXPECT_EQ(seen.headers.count("x-empty"), 1U);
    EXPECT_EQ(seen.headers.count("accept"), 0U);
}

TEST(HttpEngine, SendsNoHeaderWithAControlCharacter) {
    ScriptedServer server(always({200, {}, ""}));
    Engine engine(options());
    const std::vector<Header> bad = {{"If-Match", "\"a\"\r\n\r\nDELETE /b/k HTTP/1.1\r\n"},
                                     {"If-Match", std::string("\"a\0\"", 4)},
                                     {"X-A\nX-B", "c"},
                                     {"X-A", "\x7f"}};
    for (const auto& header : bad) {
        auto request = get(server.url());
        request.headers = {header};
        const auto response = engine.fetch(request);
        EXPECT_EQ(response.failure, Failure::protocol);
        EXPECT_NE(response.detail.find("would hold a control character"), std::string::npos);
    }
    EXPECT_TRUE(server.requests().empty());
}

TEST(HttpEngine, WritesIntoTheDestination) {
    ScriptedServer server(always({206, {}, "0123456789"}));
    Engine engine(options());
    std::vector<std::byte> bytes(10);
    auto request = get(server.url());
    request.destination = bytes;
    const auto response = engine.fetch(request);
    EXPECT_EQ(response.received, 10U);
    EXPECT_TRUE(response.body.empty());
    EXPECT_EQ(text(bytes), "0123456789");
}

TEST(HttpEngine, ErrorBodiesStayOutOfTheDestination) {
    ScriptedServer server(always({403, {}, "no, and this is longer than the destination"}));
    Engine engine(options());
    std::vector<std::byte> bytes(4, std::byte{'x'});
    auto request = get(server.url());
    request.destination = bytes;
    const auto response = engine.fetch(request);
    EXPECT_EQ(response.status, 403);
    EXPECT_EQ(response.body.substr(0, 2), "no");
    EXPECT_EQ(text(bytes), "xxxx");
}

TEST(HttpEngine, RefusesMoreThanTheDestinationHolds) {
    ScriptedServer server(always({200, {}, "0123456789"}));
    Engine engine(options());
    std::vector<std::byte> bytes(9);
    auto request = get(server.url());
    request.destination = bytes;
    EXPECT_EQ(engine.fetch(request).failure, Failure::too_large);
    request = get(server.url());
    request.body_limit = 9;
    EXPECT_EQ(engine.fetch(request).failure, Failure::too_large);
}

TEST(HttpEngine, TellsBrokenConnectionsApart) {
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.target == "/truncate") return Reply{200, {}, "0123456789", How::truncate};
        if (request.target == "/reset") return Reply{200, {}, "", How::reset};
        return Reply{200, {}, "\x15\x03\x01\x02\x02\x0a\x0a", How::raw};
    });
    Engine engine(options());
    EXPECT_EQ(engine.fetch(get(server.url() + "/truncate")).failure, Failure::truncated);
    EXPECT_EQ(engine.fetch(get(server.url() + "/reset")).failure, Failure::reset);
    EXPECT_EQ(engine.fetch(get(server.url() + "/garbage")).failure, Failure::protocol);
    EXPECT_EQ(engine.fetch(get("http://127.0.0.1:1/")).failure, Failure::connect);
}

TEST(HttpEngine, CutsStalledTransfers) {
    ScriptedServer server([](const ReceivedRequest& request) {
        return Reply{200, {}, "0123456789", request.target == "/body" ? How::stall_in_body : How::stall};
    });
    auto chosen = options();
    chosen.wire.stall = 100ms;
    Engine engine(chosen);
    EXPECT_EQ(engine.fetch(get(server.url() + "/body")).failure, Failure::stalled);
    EXPECT_EQ(engine.fetch(get(server.url() + "/")).failure, Failure::stalled);
}

TEST(HttpEngine, KeepsDeadlinesOnTheWireAndInTheQueue) {
    ScriptedServer server(always({200, {}, "", How::stall}));
    Engine engine(options(1));
    std::atomic<int> overdue{0};
    Gate all;
    for (int i = 0; i < 5; ++i) {
        auto request = get(server.url());
        request.deadline = Clock::now() + 150ms;
        engine.send(std::move(request), [&](const Response& response) {
            EXPECT_EQ(response.failure, Failure::deadline);
            if (++overdue == 5) all.open();
        });
    }
    EXPECT_TRUE(all.wait());
    EXPECT_LE(server.count(), 2U);
}

TEST(HttpEngine, ADeadlineInThePastFailsAtOnce) {
    ScriptedServer server(always({}));
    Engine engine(options());
    auto request = get(server.url());
    request.deadline = Clock::now() - 1s;
    EXPECT_EQ(engine.fetch(request).failure, Failure::deadline);
    EXPECT_EQ(server.count(), 0U);
}

TEST(HttpEngine, ReusesConnections) {
    ScriptedServer server(always({200, {}, "x"}));
    Engine engine(options());
    EXPECT_FALSE(engine.fetch(get(server.url())).reused_connection);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(engine.fetch(get(server.url())).reused_connection);
    EXPECT_EQ(server.connections(), 1U);
    auto request = get(server.url());
    request.fresh_connection = true;
    EXPECT_FALSE(engine.fetch(request).reused_connection);
    EXPECT_EQ(server.connections(), 2U);
}

TEST(HttpEngine, AServerThatHangsUpAfterEachReplyIsServedOn) {
    ScriptedServer server(always({200, {}, "x", How::close_after}));
    Engine engine(options());
    for (int i = 0; i < 20; ++i) {
        const auto response = engine.fetch(get(server.url()));
        // The close may be seen before or after the next request is sent.
        EXPECT_TRUE(response.failure == Failure::none || response.failure == Failure::reset)
            << response.detail;
    }
}

TEST(HttpEngine, NeverExceedsItsConnections) {
    ScriptedServer server(always({200, {}, "x"}));
    Engine engine(options(3));
    std::atomic<int> left{60};
    Gate all;
    for (int i = 0; i < 60; ++i) {
        engine.send(get(server.url()), [&](const Response& response) {
            EXPECT_EQ(response.status, 200);
            if (--left == 0) all.open();
        });
    }
    EXPECT_TRUE(all.wait());
    EXPECT_EQ(server.count(), 60U);
    EXPECT_LE(server.connections(), 3U);
}

TEST(HttpEngine, TwoReactorsServeAsWell) {
    ScriptedServer server(always({200, {}, "x"}));
    auto chosen = options(8);
    chosen.threads = 2;
    Engine engine(chosen);
    std::atomic<int> left{200};
    Gate all;
    for (int i = 0; i < 200; ++i) {
        engine.send(get(server.url()), [&](const Response& response) {
            EXPECT_EQ(response.status, 200);
            if (--left == 0) all.open();
        });
    }
    EXPECT_TRUE(all.wait());
    EXPECT_EQ(server.count(), 200U);
}

TEST(HttpEngine, DemandOvertakesBulk) {
    Gate release;
    ScriptedServer server([&](const ReceivedRequest& request) {
        if (request.target == "/first") (void)release.wait();
        return Reply{200, {}, "x"};
    });
    Engine engine(options(1));
    std::atomic<int> left{4};
    Gate all;
    const auto done = [&](const Response&) {
        if (--left == 0) all.open();
    };
    const auto send = [&](const char* path, Priority priority) {
        auto request = get(server.url() + path);
        request.priority = priority;
        engine.send(std::move(request), done);
    };
    send("/first", Priority::demand);
    ASSERT_TRUE(server.wait_for_requests(1));
    send("/fill", Priority::fill);
    send("/prefetch", Priority::prefetch);
    send("/demand", Priority::demand);
    release.open();
    ASSERT_TRUE(all.wait());
    const auto seen = server.requests();
    EXPECT_EQ(seen.at(1).target, "/demand");
    EXPECT_EQ(seen.at(2).target, "/prefetch");
    EXPECT_EQ(seen.at(3).target, "/fill");
}

TEST(HttpEngine, ThrottlingHalvesTheWindow) {
    ScriptedServer server([](const ReceivedRequest& request) {
        return Reply{request.target == "/slow" ? 503 : 200, {}, "x"};
    });
    Engine engine(options(16));
    EXPECT_EQ(engine.fetch(get(server.url() + "/slow")).status, 503);
    EXPECT_EQ(engine.window(), 8U);
    for (int i = 0; i < 12; ++i) EXPECT_EQ(engine.fetch(get(server.url() + "/")).status, 200);
    EXPECT_GE(engine.window(), 9U);
}

TEST(HttpEngine, CredentialsNeedNoFreeConnection) {
    ScriptedServer server([](const ReceivedRequest& request) {
        return Reply{200, {}, "x", request.target == "/stall" ? How::stall : How::whole};
    });
    Engine engine(options(1));
    Gate cancelled;
    engine.send(get(server.url() + "/stall"), [&](const Response&) { cancelled.open(); });
    ASSERT_TRUE(server.wait_for_requests(1));
    auto request = get(server.url() + "/key");
    request.skip_admission = true;
    EXPECT_EQ(engine.fetch(request).status, 200);
    engine.stop();
    EXPECT_TRUE(cancelled.wait());
}

TEST(HttpEngine, StopCancelsEverythingOnce) {
    ScriptedServer server(always({200, {}, "", How::stall}));
    std::atomic<int> cancelled{0};
    Engine engine(options(2));
    for (int i = 0; i < 10; ++i) {
        engine.send(get(server.url()), [&](const Response& response) {
            EXPECT_EQ(response.failure, Failure::cancelled);
            ++cancelled;
        });
    }
    engine.at(Clock::now() + 1h, [&](bool too_early) {
        EXPECT_TRUE(too_early);
        ++cancelled;
    });
    ASSERT_TRUE(server.wait_for_requests(2));
    engine.stop();
    EXPECT_EQ(cancelled, 11);
    engine.stop();
    EXPECT_EQ(engine.fetch(get(server.url())).failure, Failure::cancelled);
    bool called = false;
    engine.at(Clock::now(), [&](bool too_early) { called = too_early; });
    EXPECT_TRUE(called);
}

TEST(HttpEngine, CompletionsMaySendAgain) {
    ScriptedServer server(always({200, {}, "x"}));
    Engine engine(options(1));
    Gate all;
    std::function<void(int)> again = [&](int left) {
        if (left == 0) {
            all.open();
            return;
        }
        engine.send(get(server.url()), [&, left](const Response&) { again(left - 1); });
    };
    again(50);
    EXPECT_TRUE(all.wait());
    EXPECT_EQ(server.count(), 50U);
}

TEST(HttpEngine, TimersFireInOrder) {
    Engine engine(options());
    std::vector<int> order;  // touched by the reactor's thread alone until the gate opens
    Gate all;
    const auto now = Clock::now();
    engine.at(now + 60ms, [&](bool) {
        order.push_back(2);
        all.open();
    });
    engine.at(now + 20ms, [&](bool) { order.push_back(1); });
    EXPECT_TRUE(all.wait());
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(HttpEngine, SendsBodies) {
    ScriptedServer server(always({200, {}, "x"}));
    Engine engine(options());
    auto request = get(server.url());
    request.method = "PUT";
    EXPECT_EQ(engine.fetch(request).status, 200);
    request.method = "POST";
    request.body = "a=b";
    EXPECT_EQ(engine.fetch(request).status, 200);
    request.method = "HEAD";
    EXPECT_EQ(engine.fetch(request).status, 200);
    const auto seen = server.requests();
    EXPECT_EQ(seen.at(0).method, "PUT");
    EXPECT_EQ(seen.at(0).body, "");
    EXPECT_EQ(seen.at(1).method, "POST");
    EXPECT_EQ(seen.at(1).body, "a=b");
    EXPECT_EQ(seen.at(2).method, "HEAD");
}

TEST(HttpEngine, MetadataRequestsIgnoreTheProxy) {
    ScriptedServer server(always({200, {}, "x"}));
    ::setenv("http_proxy", "http://127.0.0.1:1", 1);
    {
        Engine engine(options());
        auto request = get(server.url());
        request.ignore_proxy = true;
        EXPECT_EQ(engine.fetch(request).status, 200);
        EXPECT_EQ(engine.fetch(get(server.url())).failure, Failure::connect);
    }
    ::unsetenv("http_proxy");
}

TEST(HttpEngine, EndlessHeadersAreRefused) {
    std::string flood = "HTTP/1.1 200 OK\r\n";
    for (int i = 0; i < 2000; ++i) flood += "X-" + std::to_string(i) + ": " + std::string(100, 'x') + "\r\n";
    ScriptedServer server(always({200, {}, flood, How::raw}));
    Engine engine(options());
    EXPECT_NE(engine.fetch(get(server.url())).failure, Failure::none);
}

}  // namespace engine_test
}  // namespace tierfs::http
