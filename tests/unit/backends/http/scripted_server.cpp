#include "tests/unit/backends/http/scripted_server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace tierfs::test {
namespace {

bool send_all(int socket, std::string_view data) {
    while (!data.empty()) {
        const auto sent = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        data.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

/// A whole request at the front of `input` is taken out of it.
bool take_request(std::string& input, ReceivedRequest& request) {
    const auto head_end = input.find("\r\n\r\n");
    if (head_end == std::string::npos) return false;
    std::string head = input.substr(0, head_end + 2);
    auto line_end = head.find("\r\n");
    const auto first = head.substr(0, line_end);
    const auto space = first.find(' '), second = first.rfind(' ');
    request.method = first.substr(0, space);
    request.target = first.substr(space + 1, second - space - 1);
    while (true) {
        head.erase(0, line_end + 2);
        line_end = head.find("\r\n");
        if (line_end == std::string::npos) break;
        const auto colon = head.find(':');
        std::string name = head.substr(0, colon);
        std::transform(name.begin(), name.end(), name.begin(),
                       [](unsigned char c) { return std::tolower(c); });
        auto value = head.substr(colon + 1, line_end - colon - 1);
        value.erase(0, value.find_first_not_of(' '));
        request.headers[name] = value;
    }
    const auto length = request.header("content-length");
    const std::size_t size = length.empty() ? 0 : std::stoul(length);
    if (input.size() < head_end + 4 + size) return false;
    request.body = input.substr(head_end + 4, size);
    input.erase(0, head_end + 4 + size);
    return true;
}

}  // namespace

ScriptedServer::ScriptedServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, plain, size) != 0 || ::listen(listener_, 128) != 0 ||
        ::getsockname(listener_, plain, &size) != 0 || ::pipe2(wake_, O_CLOEXEC) != 0)
        throw std::runtime_error("the test's server cannot listen");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
}

ScriptedServer::~ScriptedServer() {
    ::close(wake_[1]);
    thread_.join();
    ::close(wake_[0]);
    ::close(listener_);
}

std::vector<ReceivedRequest> ScriptedServer::requests() {
    const MutexLock lock(mutex_);
    return requests_;
}

std::size_t ScriptedServer::count() {
    const MutexLock lock(mutex_);
    return requests_.size();
}

bool ScriptedServer::wait_for_requests(std::size_t number) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (requests_.size() < number) {
        if (lock.wait_until(arrived_, limit) == std::cv_status::timeout) return requests_.size() >= number;
    }
    return true;
}

bool ScriptedServer::wait_until_open(std::size_t most) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (open_ > most) {
        if (lock.wait_until(arrived_, limit) == std::cv_status::timeout) return open_ <= most;
    }
    return true;
}

void ScriptedServer::close_one(int socket) {
    ::close(socket);
    clients_.erase(socket);
    delayed_.erase(socket);
    const MutexLock lock(mutex_);
    --open_;
    arrived_.notify_all();
}

void ScriptedServer::accept_one() {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    clients_[socket];
    ++connections_;
    const MutexLock lock(mutex_);
    ++open_;
}

void ScriptedServer::run() {
    while (true) {
        std::vector<pollfd> watched{{wake_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
        for (const auto& [socket, input] : clients_) watched.push_back({socket, POLLIN, 0});
        if (::poll(watched.data(), watched.size(), -1) < 0) continue;
        if (watched[0].revents != 0) break;
        for (std::size_t i = 2; i < watched.size(); ++i) {
            if (watched[i].revents == 0) continue;
            const int socket = watched[i].fd;
            std::array<char, 65536> buffer{};
            const auto count = ::recv(socket, buffer.data(), buffer.size(), 0);
            auto& input = clients_[socket];
            if (count > 0) input.append(buffer.data(), static_cast<std::size_t>(count));
            if (count <= 0 || !serve(socket, input)) close_one(socket);
        }
        if (watched[1].revents != 0) accept_one();
    }
    for (const auto& [socket, input] : clients_) ::close(socket);
}

bool ScriptedServer::serve(int socket, std::string& input) {
    ReceivedRequest request;
    while (take_request(input, request)) {
        {
            const MutexLock lock(mutex_);
            requests_.push_back(request);
            arrived_.notify_all();
        }
        auto reply = handler_(request);
        if (reply.how == How::after_next) {
            delayed_[socket] = std::move(reply);
            return true;
        }
        const auto delayed = std::exchange(delayed_, {});
        const bool goes_on = answer(socket, reply, request.method == "HEAD");
        for (auto [other, late] : delayed) {
            late.how = How::whole;
            answer(other, late, false);
        }
        if (!goes_on) return false;
        request = {};
    }
    return true;
}

bool ScriptedServer::answer(int socket, const Reply& reply, bool head) {
    if (reply.how == How::stall) return true;
    if (reply.how == How::reset) {
        const linger hard{1, 0};
        ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        return false;
    }
    if (reply.how == How::raw) {
        send_all(socket, reply.body);
        return false;
    }
    std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " Test\r\n";
    bool has_length = false;
    for (const auto& [name, value] : reply.headers) {
        text += name + ": " + value + "\r\n";
        has_length = has_length || name == "Content-Length";
    }
    if (!has_length) text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
    text += "\r\n";
    const bool partly = reply.how == How::truncate || reply.how == How::stall_in_body;
    if (!head) text += partly ? reply.body.substr(0, reply.body.size() / 2) : reply.body;
    if (!send_all(socket, text)) return false;
    return reply.how == How::whole || reply.how == How::stall_in_body;
}

}  // namespace tierfs::test
