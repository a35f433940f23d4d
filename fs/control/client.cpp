#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/base/fault_point.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kLongestReply = 16 << 20;
constexpr int kDeepest = 64;

Result<void> wait_for(int descriptor, short events, Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wanted{descriptor, events, 0};
    if (left > 0 && ::poll(&wanted, 1, static_cast<int>(left)) != 0) return {};
    return fail(ETIMEDOUT, "the mount's daemon does not answer");
}

struct Connection {
    FileDescriptor socket;
    ucred listener{};  ///< whoever called listen(2)
};

/// Nothing is sent before it is known who listens: a path may be another user's.
Result<Connection> connect_to(const ControlAddress& where) {
    const std::string& path = where.path;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
        return fail(ENAMETOOLONG, path + " is too long for a socket");
    std::memcpy(address.sun_path, path.data(), path.size());
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return fail(system_error(errno, "socket"));
    if (TIERFS_FAULT_CALL("ask.connect", ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                                                   sizeof(address))) != 0) {
        return fail(system_error(errno, path));
    }
    ucred listener{};
    socklen_t size = sizeof(listener);
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0)
        return fail(system_error(errno, path));
    if (where.owner && listener.uid != *where.owner)
        return fail(EPERM, path + " is not of the mount's owner: user " + std::to_string(listener.uid) +
                               " listens there, not " + std::to_string(*where.owner));
    return Connection{std::move(socket), listener};
}

/// A column of /proc/net/unix and the rest, if that is an absolute path.
std::string bound_path(const std::string& line) {
    const auto begin = line.find(" /");
    return begin == std::string::npos ? std::string() : line.substr(begin + 1);
}

Result<std::string> exchange(int socket, std::string request, Clock::time_point deadline) {
    while (!request.empty()) {
        const auto sent = TIERFS_FAULT_CALL(
            "ask.send", ::send(socket, request.data(), TIERFS_FAULT_SHORT(request.size()), MSG_NOSIGNAL));
        if (sent > 0) {
            request.erase(0, static_cast<std::size_t>(sent));
        } else if (errno == EPIPE) {
            break;  // it answered without having read
        } else if (errno == EAGAIN || errno == EINTR) {
            if (auto waited = wait_for(socket, POLLOUT, deadline); !waited) return fail(waited.error());
        } else {
            return fail(system_error(errno, "the control socket"));
        }
    }
    std::string reply;
    while (reply.find('\n') == std::string::npos) {
        if (reply.size() > kLongestReply) return fail(EIO, "the mount's answer has no end");
        if (auto waited = wait_for(socket, POLLIN, deadline); !waited) return fail(waited.error());
        std::array<char, 16384> piece{};
        const auto got = TIERFS_FAULT_CALL("ask.receive", ::recv(socket, piece.data(), piece.size(), 0));
        if (got == 0) return fail(EACCES, "the mount's daemon hung up: only root and who mounted may ask it");
        if (got < 0 && errno != EAGAIN && errno != EINTR) {
            return fail(system_error(errno, "the control socket"));
        }
        if (got > 0) reply.append(piece.data(), static_cast<std::size_t>(got));
    }
    return reply;
}

}  // namespace

Result<nlohmann::json> ask_control(const ControlAddress& address, const std::string& command,
                                   std::chrono::milliseconds patience) {
    const nlohmann::json request{{"command", command}};
    auto answer = send_control(address, request, patience);
    if (!answer && (answer.error().code == EACCES || answer.error().code == ECONNRESET))
        answer = send_control(address, request, patience);
    return answer;
}

std::optional<pid_t> control_owner(const ControlAddress& address) {
    const auto connection = connect_to(address);
    return connection ? std::optional(connection->listener.pid) : std::nullopt;
}

std::vector<std::string> control_paths_of(uid_t owner, const std::string& device) {
    const auto user = std::to_string(owner);
    const auto name = "/" + device + ".sock";
    std::vector<std::string> paths{"/run/user/" + user + "/tierfs" + name, "/tmp/tierfs-" + user + name};
    std::ifstream bound("/proc/net/unix");
    for (std::string line; std::getline(bound, line);) {
        auto path = bound_path(line);
        if (path.ends_with("/tierfs" + name) && std::find(paths.begin(), paths.end(), path) == paths.end())
            paths.push_back(std::move(path));
    }
    return paths;
}

Result<nlohmann::json> send_control(const ControlAddress& address, const nlohmann::json& request,
                                    std::chrono::milliseconds patience) {
    auto connection = connect_to(address);
    if (!connection) return fail(connection.error());
    const auto deadline = Clock::now() + patience;
    auto line = exchange(connection->socket.get(), request.dump() + "\n", deadline);
    if (!line) return fail(line.error());
    return parse_control_reply(*line);
}

std::string path_to_wire(std::string_view path) {
    std::string text;
    for (const char each : path) {
        const auto byte = static_cast<unsigned char>(each);
        if (byte < 0x80) {
            text += each;
        } else {  // UTF-8 of the character of that number
            text += static_cast<char>(0xC0U | (byte >> 6U));
            text += static_cast<char>(0x80U | (byte & 0x3FU));
        }
    }
    return text;
}

std::optional<std::string> path_from_wire(std::string_view text) {
    std::string path;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const auto lead = static_cast<unsigned char>(text[at]);
        if (lead < 0x80) {
            path += text[at];
            continue;
        }
        if ((lead != 0xC2 && lead != 0xC3) || at + 1 == text.size()) return std::nullopt;
        const auto rest = static_cast<unsigned char>(text[++at]);
        if ((rest & 0xC0U) != 0x80U) return std::nullopt;
        path += static_cast<char>(((lead & 0x03U) << 6U) | (rest & 0x3FU));
    }
    return path;
}

Result<nlohmann::json> parse_control_reply(std::string_view line) {
    // Printing takes a call for each level, and the stack is not for the one who answers to exhaust.
    bool too_deep = false;
    const auto shallow = [&](int depth, nlohmann::json::parse_event_t /*event*/, nlohmann::json& /*parsed*/) {
        too_deep = too_deep || depth > kDeepest;
        return depth <= kDeepest;
    };
    auto reply = nlohmann::json::parse(line, shallow, false);
    if (too_deep) return fail(EIO, "the mount's answer is nested too deeply");
    if (!reply.is_object()) return fail(EIO, "the mount's answer is not JSON");
    const auto ok = reply.find("ok");
    if (ok == reply.end() || !ok->is_boolean() || !ok->get<bool>()) {
        const auto why = reply.find("error");
        return fail(EIO, why != reply.end() && why->is_string() ? why->get<std::string>()
                                                                : std::string("the mount refused"));
    }
    return std::move(reply["result"]);
}

}  // namespace tierfs
