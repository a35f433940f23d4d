// Addresses of an NFS server, and sockets to it.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs::nfs {

/// An IPv4 or IPv6 address with a port.
struct Address {
    sockaddr_storage storage{};
    socklen_t length = 0;

    [[nodiscard]] Address with_port(unsigned port) const;
    /// "10.0.0.1:2049", "[::1]:2049".
    [[nodiscard]] std::string text() const;
};

/// The first address of a host, port 0. Blocks as long as the system's resolver does. EHOSTUNREACH.
Result<Address> resolve(const std::string& host);

/// A TCP socket on which a connection is being made, not blocking, from a port below 1024 where that is
/// allowed: servers that were told "secure" answer no other.
Result<FileDescriptor> begin_connect(const Address& to);

/// How the attempt ended, once the socket can be written to: 0 or an errno.
int connect_outcome(int socket);

}  // namespace tierfs::nfs
