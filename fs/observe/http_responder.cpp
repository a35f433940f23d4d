#include "fs/observe/http_responder.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"

namespace tierfs {
namespace {

constexpr std::string_view kType = "text/plain; version=0.0.4; charset=utf-8";

std::string reply(std::string_view status, std::string_view body, bool with_body = true,
                  std::string_view more = "") {
    std::string out = "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: ";
    out += status.starts_with("200") ? kType : std::string_view("text/plain");
    out += "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n" +
           std::string(more) + "\r\n";
    if (with_body) out += body;
    return out;
}

/// Big enough for any address; `size`: of the one it holds.
struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;

    [[nodiscard]] const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&storage); }
    [[nodiscard]] int family() const { return storage.ss_family; }
};

SocketAddress socket_address(const ListenAddress& address) {
    SocketAddress out;
    if (!address.path.empty()) {
        sockaddr_un local{};
        local.sun_family = AF_UNIX;
        std::memcpy(local.sun_path, address.path.data(),
                    std::min(address.path.size(), sizeof(local.sun_path) - 1));
        std::memcpy(&out.storage, &local, out.size = sizeof(local));
        return out;
    }
    sockaddr_in four{};
    if (::inet_pton(AF_INET, address.host.c_str(), &four.sin_addr) == 1) {
        four.sin_family = AF_INET;
        four.sin_port = htons(address.port);
        std::memcpy(&out.storage, &four, out.size = sizeof(four));
        return out;
    }
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(address.port);
    ::inet_pton(AF_INET6, address.host.c_str(), &six.sin6_addr);
    std::memcpy(&out.storage, &six, out.size = sizeof(six));
    return out;
}

/// A socket that nobody serves: what a daemon that was killed leaves.
bool is_left_over(const std::string& path, const SocketAddress& address) {
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
    const FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return probe && ::connect(probe.get(), address.generic(), address.size) != 0 && errno == ECONNREFUSED;
}

Result<FileDescriptor> listen_at(const ListenAddress& address) {
    const SocketAddress place = socket_address(address);
    const std::string name =
        "metrics.listen " +
        (address.path.empty() ? address.host + " port " + std::to_string(address.port) : address.path);
    FileDescriptor listener(::socket(place.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) return fail(system_error(errno, name));
    if (!address.path.empty()) {
        if (is_left_over(address.path, place)) ::unlink(address.path.c_str());
        ::fchmod(listener.get(),
                 0600);  // the file takes the mode of the socket (unix(7), Linux), less the umask
    } else {
        const int on = 1;  // the daemon before this one may have had clients a moment ago
        ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    if (TIERFS_FAULT_CALL("metrics.bind", ::bind(listener.get(), place.generic(), place.size)) != 0)
        return fail(system_error(errno, name));
    if (!address.path.empty()) {
        // By a descriptor: whoever may write to the folder may have put a link there by now.
        const FileDescriptor made(::open(address.path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        struct stat found {};
        if (!made || ::fstat(made.get(), &found) != 0 || !S_ISSOCK(found.st_mode) ||
            ::chmod(("/proc/self/fd/" + std::to_string(made.get())).c_str(), 0660) != 0)
            return fail(EPERM,
                        name + ": the socket was replaced the moment it was made, or its mode cannot be set");
    }
    if (::listen(listener.get(), 16) != 0) return fail(system_error(errno, name));
    return listener;
}

}  // namespace

std::string answer_http(std::string_view head, const MetricsContent& content) {
    const auto line = head.substr(0, head.find("\r\n"));
    const auto first = line.find(' ');
    const auto last = line.rfind(' ');
    if (first == std::string_view::npos || first == last || !line.substr(last + 1).starts_with("HTTP/1."))
        return reply("400 Bad Request", "this is no request\n");
    const auto method = line.substr(0, first);
    auto target = line.substr(first + 1, last - first - 1);
    target = target.substr(0, target.find('?'));
    if (method != "GET" && method != "HEAD")
        return reply("405 Method Not Allowed", "GET is allowed\n", true, "Allow: GET, HEAD\r\n");
    if (target != "/metrics")
        return reply("404 Not Found", "there is /metrics, and nothing else\n", method == "GET");
    return reply("200 OK", content(), method == "GET");
}

Result<std::unique_ptr<HttpResponder>> HttpResponder::open(const ListenAddress& address,
                                                           MetricsContent content) {
    auto listener = listen_at(address);
    if (!listener) return fail(listener.error());
    FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake) return fail(system_error(errno, "metrics.listen"));
    std::unique_ptr<HttpResponder> responder(
        new HttpResponder(std::move(*listener), std::move(wake), address.path, std::move(content)));
    if (!address.path.empty()) responder->identity_ = socket_identity(address.path);
    responder->thread_ = std::thread([raw = responder.get()] { raw->run(); });
    return responder;
}

HttpResponder::HttpResponder(FileDescriptor listener, FileDescriptor wake, std::string path,
                             MetricsContent content)
    : listener_(std::move(listener)),
      wake_(std::move(wake)),
      path_(std::move(path)),
      content_(std::move(content)) {}

HttpResponder::~HttpResponder() {
    if (thread_.joinable()) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
        thread_.join();
    }
    remove_socket(path_, identity_);
}

// Waits for all clients at once, so that one that is slow costs the others nothing. The oldest gives way to a new one where
// there are too many.
void HttpResponder::run() {
    while (true) {
        std::vector<pollfd> wanted{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
        auto deadline = Clock::time_point::max();
        for (const auto& client : clients_) {
            wanted.push_back({client.socket.get(), client.events(), 0});
            deadline = std::min(deadline, client.deadline);
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        const int patience = clients_.empty() ? -1 : static_cast<int>(std::max<std::int64_t>(left, 0));
        if (::poll(wanted.data(), wanted.size(), patience) < 0) {
            if (errno != EINTR) return;
            continue;
        }
        if (wanted[0].revents != 0) return;
        const auto now = Clock::now();
        for (std::size_t i = 0; i < clients_.size(); ++i) {
            const bool goes_on = wanted[i + 2].revents == 0 || advance(clients_[i]);
            if (!goes_on || clients_[i].deadline <= now) clients_[i].socket.reset();
        }
        std::erase_if(clients_, [](const Client& client) { return !client.socket; });
        if (wanted[1].revents != 0) accept();
    }
}

void HttpResponder::accept() {
    FileDescriptor socket(TIERFS_FAULT_CALL(
        "metrics.accept", ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
    if (socket) {
        if (clients_.size() >= kMostClients) clients_.erase(clients_.begin());
        clients_.push_back({std::move(socket), Clock::now() + kPatience, {}, 0, Client::State::asks});
        return;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    // Out of descriptors: the connection stays in the queue, so do not spin on it.
    pollfd wanted{wake_.get(), POLLIN, 0};
    ::poll(&wanted, 1, 100);
}

/// False: it is done, or lost.
bool HttpResponder::advance(Client& client) {
    switch (client.state) {
        case Client::State::asks:
            return read_request(client);
        case Client::State::is_answered:
            return send_answer(client);
        case Client::State::ends:
            break;
    }
    std::array<char, 2048> rest{};
    const auto got = ::recv(client.socket.get(), rest.data(), rest.size(), 0);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

bool HttpResponder::read_request(Client& client) {
    constexpr std::string_view kEnd = "\r\n\r\n";
    std::array<char, 2048> piece{};
    const auto got =
        TIERFS_FAULT_CALL("metrics.receive", ::recv(client.socket.get(), piece.data(), piece.size(), 0));
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    client.text.append(piece.data(), static_cast<std::size_t>(got));
    const auto end = client.text.find(kEnd);
    if (end == std::string::npos && client.text.size() <= kLongestHead) return true;
    client.text = end == std::string::npos
                      ? reply("431 Request Header Fields Too Large", "the request is too long\n")
                      : answer_http(std::string_view(client.text).substr(0, end + kEnd.size()), content_);
    client.state = Client::State::is_answered;
    return send_answer(client);
}

bool HttpResponder::send_answer(Client& client) {
    while (client.sent < client.text.size()) {
        const auto left = std::string_view(client.text).substr(client.sent);
        const auto sent = TIERFS_FAULT_CALL(
            "metrics.send",
            ::send(client.socket.get(), left.data(), TIERFS_FAULT_SHORT(left.size()), MSG_NOSIGNAL));
        if (sent <= 0) return errno == EAGAIN || errno == EINTR;
        client.sent += static_cast<std::size_t>(sent);
    }
    // What was sent and not read would make the close a reset, which takes the answer with it.
    ::shutdown(client.socket.get(), SHUT_WR);
    client.state = Client::State::ends;
    client.deadline = std::min(client.deadline, Clock::now() + std::chrono::milliseconds(200));
    return true;
}

MetricsServer::MetricsServer(const std::string& listen, MetricsContent content)
    : listen_(listen), content_(std::move(content)) {}

void MetricsServer::tick() {
    if (listen_.empty() || responder_) return;
    const auto address = parse_listen_address(listen_);
    auto opened = address ? HttpResponder::open(*address, content_)
                          : Result<std::unique_ptr<HttpResponder>>(fail(address.error()));
    if (opened) {
        responder_ = std::move(*opened);
        if (told_) log::info("metrics are served at " + listen_ + " now");
    } else if (!std::exchange(told_, true)) {
        log::warning(opened.error().message + ": metrics are not served; it is tried again every second");
    }
}

}  // namespace tierfs
