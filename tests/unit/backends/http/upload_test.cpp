#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "backends/http/engine.hpp"
#include "tests/unit/backends/http/scripted_server.hpp"

namespace tierfs::http {
namespace upload_test {

using namespace std::chrono_literals;
using test::How;
using test::ReceivedRequest;
using test::Reply;
using test::ScriptedServer;

Request upload(const std::string& url, const std::string& body) {
    Request request;
    request.method = "PUT";
    request.url = url;
    request.upload = std::as_bytes(std::span(body));
    request.deadline = Clock::now() + 60s;
    return request;
}

TEST(HttpUpload, SendsTheCallersBytes) {
    ScriptedServer server([](const ReceivedRequest&) { return Reply{200, {}, "thanks"}; });
    Engine engine({});
    for (const std::size_t size : {1U, 65536U, 65537U, 3U << 20}) {
        std::string body(size, 'x');
        body.back() = 'y';
        const auto response = engine.fetch(upload(server.url() + "/f", body));
        EXPECT_EQ(response.failure, Failure::none) << response.detail;
        EXPECT_EQ(response.body, "thanks");
        const auto seen = server.requests().back();
        EXPECT_EQ(seen.method, "PUT");
        EXPECT_EQ(seen.headers.count("expect"), 0U);
        EXPECT_TRUE(seen.body == body) << size;
    }
}

/// A body that is made while it is sent.
class Counting final : public BodySource {
  public:
    Counting(std::uint64_t size, std::uint64_t breaks_at) : size_(size), breaks_at_(breaks_at) {}
    [[nodiscard]] std::uint64_t size() const override { return size_; }
    bool read(std::uint64_t offset, std::span<std::byte> piece) override {
        for (auto& byte : piece) byte = static_cast<std::byte>('a' + offset++ % 26);
        return offset <= breaks_at_;
    }

  private:
    const std::uint64_t size_, breaks_at_;
};

TEST(HttpUpload, SendsWhatASourceHas) {
    ScriptedServer server([](const ReceivedRequest&) { return Reply{200, {}, "thanks"}; });
    Engine engine({});
    for (const std::size_t size : {1U, 65537U, 3U << 20}) {
        auto request = upload(server.url() + "/f", "");
        request.source = std::make_shared<Counting>(size, UINT64_MAX);
        const auto response = engine.fetch(std::move(request));
        EXPECT_EQ(response.failure, Failure::none) << response.detail;
        const auto seen = server.requests().back();
        EXPECT_EQ(seen.method, "PUT");
        ASSERT_EQ(seen.body.size(), size);
        EXPECT_EQ(seen.body.back(), static_cast<char>('a' + (size - 1) % 26));
    }
}

TEST(HttpUpload, ASourceThatCannotBeReadEndsTheAttempt) {
    ScriptedServer server([](const ReceivedRequest&) { return Reply{200, {}, "thanks"}; });
    Engine engine({});
    auto request = upload(server.url() + "/f", "");
    request.source = std::make_shared<Counting>(3U << 20, 1U << 20);
    EXPECT_NE(engine.fetch(std::move(request)).failure, Failure::none);
}

TEST(HttpUpload, DeleteHasNoBody) {
    ScriptedServer server([](const ReceivedRequest&) { return Reply{204, {}, ""}; });
    Engine engine({});
    Request request;
    request.method = "DELETE";
    request.url = server.url() + "/f";
    request.deadline = Clock::now() + 60s;
    EXPECT_EQ(engine.fetch(request).status, 204);
    EXPECT_EQ(server.requests().back().method, "DELETE");
    EXPECT_EQ(server.requests().back().body, "");
}

TEST(HttpUpload, ASilenceOfItsOwnEndsTheAttempt) {
    ScriptedServer server([](const ReceivedRequest&) { return Reply{200, {}, "", How::stall}; });
    EngineOptions options;
    options.wire.stall = 60000ms;
    Engine engine(options);
    const std::string body = "hello";
    auto request = upload(server.url() + "/f", body);
    request.stall = 200ms;
    EXPECT_EQ(engine.fetch(request).failure, Failure::stalled);
}

/// Takes connections and reads what comes slowly; answers 200 at the end of `size` bytes.
class SlowReader {
  public:
    SlowReader(std::size_t size, std::size_t step, std::chrono::milliseconds pause) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int small = 65536;
        ::setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        auto* plain = reinterpret_cast<sockaddr*>(&address);
        if (::bind(listener_, plain, length) != 0 || ::listen(listener_, 1) != 0 ||
            ::getsockname(listener_, plain, &length) != 0)
            throw std::runtime_error("the test's server cannot listen");
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([=, this] { serve(size, step, pause); });
    }
    ~SlowReader() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }
    SlowReader(const SlowReader&) = delete;
    SlowReader& operator=(const SlowReader&) = delete;
    [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  private:
    void serve(std::size_t size, std::size_t step, std::chrono::milliseconds pause) const {
        const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        std::array<char, 65536> buffer{};
        std::size_t total = 0;
        for (std::size_t next = step; total < size;) {
            const auto got = ::recv(client, buffer.data(), buffer.size(), 0);
            if (got <= 0) break;
            total += static_cast<std::size_t>(got);
            if (total < next) continue;
            next += step;
            std::this_thread::sleep_for(pause);
        }
        constexpr std::string_view kReply = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        if (total >= size) ::send(client, kReply.data(), kReply.size(), MSG_NOSIGNAL);
        ::close(client);
    }

    int listener_ = -1, port_ = 0;
    std::thread thread_;
};

TEST(HttpUpload, WhatIsStillBeingSentIsNoSilence) {
    const std::string body(48U << 20, 'x');
    SlowReader server(body.size(), body.size() / 60,
                      100ms);  // six seconds, of which the last bytes take little
    Engine engine({});
    auto request = upload(server.url() + "/f", body);
    request.stall = 4000ms;
    const auto response = engine.fetch(request);
    EXPECT_EQ(response.failure, Failure::none) << response.detail;
    EXPECT_EQ(response.status, 200);
}

}  // namespace upload_test
}  // namespace tierfs::http
