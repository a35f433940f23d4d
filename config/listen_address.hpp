// The address of a server of this machine: a loopback port, or a UNIX socket.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/base/result.hpp"

namespace tierfs {

/// One of the two. Plain value.
struct ListenAddress {
    std::string path;  ///< of a UNIX socket, absolute; empty: host and port
    std::string host;  ///< an IP address of this machine alone, without brackets
    std::uint16_t port = 0;
};

/// "/run/x.sock", "127.0.0.1:9464", "localhost:9464", "[::1]:9464". EINVAL: anything else, addresses that
/// other machines reach among them. Pure.
Result<ListenAddress> parse_listen_address(std::string_view text);

}  // namespace tierfs
