// Connections that are not trusted further: handshakes that are cut, replies with more or less than was asked
// for.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <thread>

#include "backends/http/engine.hpp"
#include "backends/http/retry.hpp"
#include "tests/unit/backends/http/scripted_server.hpp"

namespace tierfs::http {
namespace distrust_test {

using namespace std::chrono_literals;

/// Takes one connection, reads the client's hello, says `reply` and hangs up.
class HangsUp {
  public:
    explicit HangsUp(std::string reply) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        EXPECT_EQ(::bind(listener_, generic, size), 0);
        EXPECT_EQ(::listen(listener_, 4), 0);
        EXPECT_EQ(::getsockname(listener_, generic, &size), 0);
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this, reply = std::move(reply)] {
            const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (connection < 0) return;
            std::array<char, 4096> hello{};
            (void)::recv(connection, hello.data(), hello.size(), 0);
            (void)::send(connection, reply.data(), reply.size(), MSG_NOSIGNAL);
            ::close(connection);
        });
    }
    ~HangsUp() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }
    HangsUp(const HangsUp&) = delete;
    HangsUp& operator=(const HangsUp&) = delete;

    Failure fetch() const {
        Request request;
        request.url = "https://127.0.0.1:" + std::to_string(port_) + "/";
        request.deadline = Clock::now() + 20s;
        Engine engine(EngineOptions{});
        return engine.fetch(request).failure;
    }

  private:
    int listener_, port_ = 0;
    std::thread thread_;
};

TEST(HttpHandshake, CutByTheNetworkMayWorkNextTime) {
    EXPECT_EQ(HangsUp("").fetch(), Failure::connect);
    // A record of 122 bytes is announced and does not come.
    EXPECT_EQ(HangsUp(std::string("\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03", 11)).fetch(),
              Failure::connect);
}

TEST(HttpHandshake, WhatThePeersDisagreeOnStays) {
    EXPECT_EQ(HangsUp("HTTP/1.1 400 Bad Request\r\n\r\n").fetch(), Failure::tls);
    EXPECT_EQ(HangsUp(std::string("\x15\x03\x03\x00\x02\x02\x28", 7)).fetch(),
              Failure::tls);  // handshake_failure
}

TEST(HttpDistrust, AConnectionWhoseReplyHadAnotherLengthIsNotUsedAgain) {
    // What lies behind such a reply would be taken for the next one.
    for (const char* length : {"6", "10"}) {
        test::ScriptedServer server([&](const test::ReceivedRequest&) {
            return test::Reply{
                206, {{"Content-Length", length}}, std::string("0123456789").substr(0, std::stoul(length))};
        });
        EngineOptions options;
        options.connections = 1;
        Engine engine(options);
        std::array<std::byte, 10> room{};
        Request request;
        request.url = server.url() + "/";
        request.deadline = Clock::now() + 20s;
        request.destination = room;
        for (int i = 0; i < 2; ++i) EXPECT_EQ(engine.fetch(request).received, std::stoul(length));
        EXPECT_EQ(server.connections(), length == std::string("10") ? 1U : 2U);
    }
}

TEST(HttpDistrust, GarbageOnAConnectionThatWasUsedBeforeMayBeTheRestOfAReply) {
    test::ScriptedServer server([n = 0](const test::ReceivedRequest&) mutable {
        if (++n == 2) return test::Reply{200, {}, "rest of a body", test::How::raw};
        return test::Reply{200, {}, "good"};
    });
    Engine engine(EngineOptions{});
    Request request;
    request.url = server.url() + "/";
    request.deadline = Clock::now() + 20s;
    EXPECT_EQ(engine.fetch(request).body, "good");
    auto response = engine.fetch(request);
    EXPECT_EQ(response.failure, Failure::protocol);
    EXPECT_TRUE(worth_repeating(response));
    response.reused_connection = false;
    EXPECT_FALSE(worth_repeating(response)) << "who never spoke HTTP will not do so next time";
}

}  // namespace distrust_test
}  // namespace tierfs::http
