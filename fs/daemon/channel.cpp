#include "fs/daemon/channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "config/base/fault_point.hpp"

namespace tierfs {

namespace {
constexpr std::size_t kLongest = 16 << 10;
}

Result<std::pair<Channel, Channel>> Channel::make() {
    std::array<int, 2> ends{-1, -1};
    if (TIERFS_FAULT_CALL("channel.make",
                          ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data())) != 0) {
        return fail(system_error(errno, "socketpair"));
    }
    return std::pair(Channel(FileDescriptor(ends[0])), Channel(FileDescriptor(ends[1])));
}

bool Channel::send(Message::Kind kind, const std::string& text, int descriptor) {
    std::string bytes(1, static_cast<char>(kind));
    bytes += text.substr(0, kLongest - 1);
    iovec vector{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (descriptor >= 0) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    }
    ssize_t sent = 0;
    do {
        sent = TIERFS_FAULT_CALL("channel.send", ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL));
    } while (sent < 0 && errno == EINTR);
    return sent > 0;
}

bool Channel::has_news() const {
    pollfd wanted{socket_.get(), POLLIN, 0};
    return socket_ && ::poll(&wanted, 1, 0) > 0;
}

std::optional<Message> Channel::receive() {
    std::string bytes(kLongest, '\0');
    iovec vector{bytes.data(), bytes.size()};
    msghdr message{};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t size = 0;
    // An end that died without having read all that it was sent says so first (ECONNRESET, once): what it had
    // sent before is still to come.
    bool was_reset = false, again = true;
    while (again) {
        size = TIERFS_FAULT_CALL("channel.receive", ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC));
        again = size < 0 && (errno == EINTR || (errno == ECONNRESET && !was_reset));
        was_reset = size < 0 && errno == ECONNRESET;
    }
    if (size <= 0) return std::nullopt;
    Message received{
        static_cast<Message::Kind>(bytes[0]), bytes.substr(1, static_cast<std::size_t>(size) - 1), {}};
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
        received.descriptor.reset(descriptor);
    }
    return received;
}

}  // namespace tierfs
