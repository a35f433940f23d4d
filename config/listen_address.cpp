#include "config/listen_address.hpp"

#include <arpa/inet.h>
#include <sys/un.h>

#include <charconv>

namespace tierfs {
namespace {

bool is_loopback(const std::string& host) {
    in_addr four{};
    if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24U) == 127;
    in6_addr six{};
    return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
    ListenAddress address;
    if (text.starts_with('/')) {
        if (text.size() >= sizeof(sockaddr_un::sun_path) || text.find('\0') != std::string_view::npos)
            return fail(EINVAL, "the path is too long for a socket");
        address.path = text;
        return address;
    }
    const auto colon = text.rfind(':');
    if (colon == std::string_view::npos) return fail(EINVAL, "there is no port");
    const auto digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
    if (error != std::errc() || end != digits.data() + digits.size() || address.port == 0)
        return fail(EINVAL, "the port is no number from 1 to 65535");
    auto host = text.substr(0, colon);
    const bool brackets = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
    if (brackets) host = host.substr(1, host.size() - 2);
    address.host = host == "localhost" ? "127.0.0.1" : std::string(host);
    const bool six = address.host.find(':') != std::string::npos;
    if (six != brackets || !is_loopback(address.host))
        return fail(EINVAL, "the address is not one of this machine alone");
    return address;
}

}  // namespace tierfs
