#include "fs/observe/http_responder.hpp"

#include <arpa/inet.h>
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
    if (!address.path.empty()) ::chmod(address.path.c_str(), 0660);
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

bool HttpResponder::wait_for(int descriptor, short events, std::chrono::steady_clock::time_point deadline) {
    using std::chrono::milliseconds;
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> wanted{pollfd{descriptor, events, 0}, pollfd{wake_.get(), POLLIN, 0}};
    const int ready = ::poll(wanted.data(), wanted.size(), static_cast<int>(left));
    return ready < 0 ? errno == EINTR : ready > 0 && wanted[1].revents == 0;
}

void HttpResponder::run() {
    while (true) {
        std::array<pollfd, 2> wanted{pollfd{listener_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
        if (::poll(wanted.data(), wanted.size(), -1) < 0 && errno != EINTR) return;
        if (wanted[1].revents != 0) return;
        if (wanted[0].revents == 0) continue;
        const FileDescriptor client(TIERFS_FAULT_CALL(
            "metrics.accept", ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
        if (client) {
            serve(client.get());
        } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            // Out of descriptors: the connection stays in the queue, so do not spin on it.
            if (!wait_for(-1, 0, std::chrono::steady_clock::now() + std::chrono::milliseconds(100))) continue;
        }
    }
}

void HttpResponder::serve(int client) {
    constexpr std::string_view kEnd = "\r\n\r\n";
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::string head;
    while (head.find(kEnd) == std::string::npos && head.size() <= kLongestHead) {
        if (!wait_for(client, POLLIN, deadline)) return;
        std::array<char, 2048> piece{};
        const auto got = TIERFS_FAULT_CALL("metrics.receive", ::recv(client, piece.data(), piece.size(), 0));
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
        if (got > 0) head.append(piece.data(), static_cast<std::size_t>(got));
    }
    const auto end = head.find(kEnd);
    std::string answer = end == std::string::npos
                             ? reply("431 Request Header Fields Too Large", "the request is too long\n")
                             : answer_http(std::string_view(head).substr(0, end + kEnd.size()), content_);
    std::string_view left = answer;
    while (!left.empty()) {
        const auto sent = TIERFS_FAULT_CALL(
            "metrics.send", ::send(client, left.data(), TIERFS_FAULT_SHORT(left.size()), MSG_NOSIGNAL));
        if (sent > 0) {
            left.remove_prefix(static_cast<std::size_t>(sent));
        } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(client, POLLOUT, deadline)) {
            return;
        }
    }
    // What was sent and not read would make the close a reset, which takes the answer with it.
    ::shutdown(client, SHUT_WR);
    std::array<char, 2048> rest{};
    while (wait_for(client, POLLIN,
                    std::min(deadline, std::chrono::steady_clock::now() + std::chrono::milliseconds(200))) &&
           ::recv(client, rest.data(), rest.size(), 0) > 0) {
    }
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
