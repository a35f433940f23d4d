#include "backends/nfs/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>

namespace tierfs::nfs {
namespace {

// What bindresvport(3) takes: below are ports that services are known by.
constexpr unsigned kFirstReserved = 665, kReserved = 1024 - kFirstReserved;
constexpr unsigned kMostTries = 64;

/// Binds to a reserved port, or leaves it: without the right to do so, or when all are taken.
void bind_reserved(int socket, int family) {
    static std::atomic<unsigned> turn{static_cast<unsigned>(::getpid())};
    for (unsigned i = 0; i < kMostTries; ++i) {
        const auto port = static_cast<in_port_t>(kFirstReserved + turn++ % kReserved);
        Address any;
        any.storage.ss_family = static_cast<sa_family_t>(family);
        any.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
        any = any.with_port(port);
        if (::bind(socket, reinterpret_cast<const sockaddr*>(&any.storage), any.length) == 0) return;
        if (errno != EADDRINUSE) return;
    }
}

Result<FileDescriptor> try_connect(const Address& to, bool reserved) {
    FileDescriptor made(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!made) return fail(system_error(errno, "socket"));
    const int on = 1;
    static_cast<void>(::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    static_cast<void>(::setsockopt(made.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on));
    if (reserved) bind_reserved(made.get(), to.storage.ss_family);
    if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length) == 0 ||
        errno == EINPROGRESS)
        return made;
    return fail(system_error(errno, "connecting to " + to.text()));
}

}  // namespace

Address Address::with_port(unsigned port) const {
    Address other = *this;
    const auto value = htons(static_cast<std::uint16_t>(port));
    if (storage.ss_family == AF_INET6) {
        reinterpret_cast<sockaddr_in6*>(&other.storage)->sin6_port = value;
    } else {
        reinterpret_cast<sockaddr_in*>(&other.storage)->sin_port = value;
    }
    return other;
}

std::string Address::text() const {
    std::array<char, INET6_ADDRSTRLEN> host{};
    if (storage.ss_family == AF_INET6) {
        const auto* six = reinterpret_cast<const sockaddr_in6*>(&storage);
        ::inet_ntop(AF_INET6, &six->sin6_addr, host.data(), host.size());
        return "[" + std::string(host.data()) + "]:" + std::to_string(ntohs(six->sin6_port));
    }
    const auto* four = reinterpret_cast<const sockaddr_in*>(&storage);
    ::inet_ntop(AF_INET, &four->sin_addr, host.data(), host.size());
    return std::string(host.data()) + ":" + std::to_string(ntohs(four->sin_port));
}

Result<Address> resolve(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, [](addrinfo* list) {
        if (list != nullptr) ::freeaddrinfo(list);
    });
    if (code != 0 || found == nullptr || found->ai_addrlen > sizeof(sockaddr_storage))
        return fail(EHOSTUNREACH, "host '" + host + "': " + ::gai_strerror(code));
    Address address;
    std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
    address.length = found->ai_addrlen;
    return address;
}

Result<FileDescriptor> begin_connect(const Address& to) {
    auto made = try_connect(to, true);
    if (made || (made.error().code != EADDRNOTAVAIL && made.error().code != EADDRINUSE)) return made;
    // That reserved port has just been used for the same server.
    return try_connect(to, false);
}

int connect_outcome(int socket) {
    int code = 0;
    socklen_t size = sizeof code;
    return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &size) != 0 ? errno : code;
}

}  // namespace tierfs::nfs
