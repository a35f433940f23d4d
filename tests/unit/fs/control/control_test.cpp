#include "fs/control/control.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

namespace tierfs {
namespace control_test {

using Json = nlohmann::json;

Result<Json> handle(const std::string& command, const Json& request) {
    if (command == "echo") return request;
    if (command == "status") return Json{{"pid", 1}};
    return fail(EINVAL, "unknown command " + command);
}

Json answer(std::string_view line) {
    const auto text = answer_control_line(line, handle);
    EXPECT_EQ(text.back(), '\n');
    EXPECT_EQ(text.find('\n'), text.size() - 1);
    return Json::parse(text);
}

TEST(ControlLine, AnswersACommand) {
    EXPECT_EQ(answer(R"({"command": "status"})"), (Json{{"ok", true}, {"result", {{"pid", 1}}}}));
}

TEST(ControlLine, RefusesGarbageWithAReason) {
    for (const std::string line : {"", "{", "[]", "7", "null", "{}", R"({"command": 1})",
                                   R"({"command": "x"})", "\xff\xfe", R"({"command": "\u0000"})"}) {
        const auto reply = answer(line);
        EXPECT_EQ(reply["ok"], false) << line;
        EXPECT_FALSE(reply["error"].get<std::string>().empty()) << line;
    }
    EXPECT_EQ(answer(std::string(60000, '['))["ok"], false);
}

TEST(ControlLine, HandsTheRequestOn) {
    const auto reply = answer(R"({"command": "echo", "paths": ["a", "b"]})");
    EXPECT_EQ(reply["result"]["paths"], (Json{"a", "b"}));
}

TEST(ControlLine, PathsOfAnyBytesGoBothWays) {
    std::string bytes;
    for (int byte = 1; byte < 256; ++byte) bytes += static_cast<char>(byte);
    const auto wire = path_to_wire(bytes);
    EXPECT_EQ(path_from_wire(Json::parse(Json(wire).dump()).get<std::string>()), bytes);
    EXPECT_EQ(path_to_wire("plain/x"), "plain/x");
    for (const char* wrong : {"\xe2\x82\xac", "\xc3", "\xc3x", "\xc4\x80", "\xff"})
        EXPECT_EQ(path_from_wire(wrong), std::nullopt);
}

TEST(ControlLine, ReplacesWhatIsNotUtf8) {
    const auto text = answer_control_line(
        R"({"command": "x"})", [](const std::string&, const Json&) -> Result<Json> { return Json("a\xff"); });
    EXPECT_EQ(Json::parse(text)["ok"], true);
}

class ControlSocket : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = "/tmp/tierfs-control-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        base_ = pattern;
        path_ = pattern + "/run/0:52.sock";
        auto listener = listen_control(path_);
        ASSERT_TRUE(listener) << listener.error().message;
        auto server = ControlServer::open(std::move(*listener), path_, handle);
        ASSERT_TRUE(server) << server.error().message;
        server_ = std::move(*server);
    }
    void TearDown() override {
        server_.reset();
        std::filesystem::remove_all(base_);
    }

    FileDescriptor client() {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, path_.data(), path_.size());
        FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
        return socket;
    }

    std::string base_, path_;
    std::unique_ptr<ControlServer> server_;
};

TEST_F(ControlSocket, IsForItsOwnerOnly) {
    struct stat found {};
    ASSERT_EQ(::stat(path_.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0600U);
}

TEST_F(ControlSocket, AnswersAndReportsErrors) {
    const auto status = ask_control(path_, "status", std::chrono::seconds(30));
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ((*status)["pid"], 1);
    const auto refused = ask_control(path_, "nonsense", std::chrono::seconds(30));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("unknown command nonsense"), std::string::npos);
}

TEST_F(ControlSocket, AnswersSeveralRequestsOfAConnection) {
    const auto socket = client();
    const std::string two = "{\"command\":\"status\"}\n{\"command\":\"x\"}\n";
    ASSERT_EQ(::send(socket.get(), two.data(), two.size(), 0), static_cast<ssize_t>(two.size()));
    ::shutdown(socket.get(), SHUT_WR);
    std::string reply;
    std::array<char, 256> piece{};
    for (ssize_t got = 0; (got = ::recv(socket.get(), piece.data(), piece.size(), 0)) > 0;) {
        reply.append(piece.data(), static_cast<std::size_t>(got));
    }
    EXPECT_EQ(std::count(reply.begin(), reply.end(), '\n'), 2);
}

TEST_F(ControlSocket, RefusesARequestWithoutEndAndLivesOn) {
    const auto socket = client();
    const std::string endless(ControlServer::kLongestRequest + 8192, 'x');
    ::send(socket.get(), endless.data(), endless.size(), MSG_NOSIGNAL);
    std::array<char, 256> piece{};
    const auto got = ::recv(socket.get(), piece.data(), piece.size(), 0);
    ASSERT_GT(got, 0);
    EXPECT_NE(std::string(piece.data(), static_cast<std::size_t>(got)).find("too long"), std::string::npos);
    EXPECT_TRUE(ask_control(path_, "status", std::chrono::seconds(30)));
}

TEST_F(ControlSocket, ReplacesASocketThatIsLeftOver) {
    auto listener = listen_control(path_);
    ASSERT_TRUE(listener) << listener.error().message;
    auto second = ControlServer::open(std::move(*listener), path_, handle);
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_TRUE(ask_control(path_, "status", std::chrono::seconds(30)));
}

TEST_F(ControlSocket, ARequestMayBeLeftToSomebodyElse) {
    auto listener = listen_control(path_);
    ASSERT_TRUE(listener);
    auto server = ControlServer::open(
        std::move(*listener), path_,
        [](const std::string&, const Json&) -> Result<Json> { return fail(EINPROGRESS, "later"); },
        [&](FileDescriptor client) {
            const auto line = control_answer("elsewhere");
            ::send(client.get(), line.data(), line.size(), MSG_NOSIGNAL);
        });
    ASSERT_TRUE(server);
    const auto answer = ask_control(path_, "reload", std::chrono::seconds(30));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(*answer, "elsewhere");
}

TEST_F(ControlSocket, ClientsWaitWhileNobodyServes) {
    auto listener = listen_control(path_);
    ASSERT_TRUE(listener);
    auto first = ControlServer::open(FileDescriptor(::dup(listener->get())), path_, handle);
    ASSERT_TRUE(first);
    (*first)->leave();
    std::thread asks([&] { EXPECT_TRUE(ask_control(path_, "status", std::chrono::seconds(30))); });
    pollfd waiting{listener->get(), POLLIN, 0};
    EXPECT_EQ(::poll(&waiting, 1, 30'000), 1);
    auto next = ControlServer::open(FileDescriptor(::dup(listener->get())), path_, handle);
    asks.join();
    ASSERT_TRUE(next);
    (*next)->stop();
    EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ControlSocket, AnAnswerThatCameBeforeTheRequestIsHeard) {
    auto listener = listen_control(path_);
    ASSERT_TRUE(listener);
    std::thread serves([&] {
        pollfd waiting{listener->get(), POLLIN, 0};
        ::poll(&waiting, 1, 30'000);
        const auto client = accept_control(listener->get());
        const auto line = control_refusal("not now");
        ::send(client.get(), line.data(), line.size(), MSG_NOSIGNAL);
    });
    const auto answer = ask_control(path_, "status", std::chrono::seconds(30));
    serves.join();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().message, "not now");
}

TEST_F(ControlSocket, BelongsToTheProcessThatListens) {
    EXPECT_EQ(control_owner(path_), ::getpid());
    EXPECT_FALSE(control_owner(path_ + ".none"));
}

TEST_F(ControlSocket, NothingIsSaidToWhoHasNotToListen) {
    const ControlAddress right(path_, ::geteuid()), wrong(path_, ::geteuid() + 1);
    EXPECT_TRUE(ask_control(right, "status", std::chrono::seconds(30)));
    const auto refused = ask_control(wrong, "status", std::chrono::seconds(30));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EPERM);
    EXPECT_TRUE(control_owner(right));
    EXPECT_FALSE(control_owner(wrong));
}

TEST(ControlPaths, OfAUserAreWhereHeHasThemAndWhereOneIsBound) {
    std::string base = "/tmp/tierfs-control-XXXXXX";
    ASSERT_NE(::mkdtemp(base.data()), nullptr);
    std::filesystem::create_directory(base + "/run time");
    const std::string own = base + "/run time/tierfs/0:77.sock";
    const auto listener = listen_control(own);
    ASSERT_TRUE(listener) << listener.error().message;
    const auto paths = control_paths_of(4711, "0:77");
    EXPECT_EQ(paths.at(0), "/run/user/4711/tierfs/0:77.sock");
    EXPECT_EQ(paths.at(1), "/tmp/tierfs-4711/0:77.sock");
    EXPECT_EQ(std::count(paths.begin(), paths.end(), own), 1);
    const auto others = control_paths_of(4711, "0:7");
    EXPECT_EQ(std::count(others.begin(), others.end(), own), 0);
    std::filesystem::remove_all(base);
}

TEST_F(ControlSocket, IsGoneAfterStopEvenWithASilentClient) {
    const auto silent = client();
    server_->stop();
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_FALSE(ask_control(path_, "status", std::chrono::seconds(30)));
}

TEST(ControlReply, WhatIsNestedTooDeeplyIsRefused) {
    const auto nested = [](std::size_t levels) {
        return "{\"ok\":true,\"result\":" + std::string(levels, '[') + std::string(levels, ']') + "}";
    };
    const auto shallow = parse_control_reply(nested(20));
    ASSERT_TRUE(shallow) << shallow.error().message;
    EXPECT_EQ(shallow->dump(), std::string(20, '[') + std::string(20, ']'));
    const auto deep = parse_control_reply(nested(1'000'000));
    ASSERT_FALSE(deep) << "printing it would take a call for each level";
    EXPECT_EQ(deep.error().code, EIO);
}

TEST(ControlReply, OnlyAnObjectThatSaysOkIsAnAnswer) {
    EXPECT_EQ(parse_control_reply("{\"ok\":true,\"result\":7}")->dump(), "7");
    EXPECT_TRUE(parse_control_reply("{\"ok\":true}")->is_null());
    EXPECT_EQ(parse_control_reply("{\"ok\":false,\"error\":\"why\"}").error().message, "why");
    for (const char* line : {"", "[]", "{}", "{\"ok\":1}", "{\"ok\":false,\"error\":[]}", "{\"ok\":true"})
        EXPECT_FALSE(parse_control_reply(line)) << line;
}

}  // namespace control_test
}  // namespace tierfs
