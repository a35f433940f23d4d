// The parts of a SOURCE nfs://… Here and not in backends/, since its options are settings of the mount.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"

namespace tierfs {

/// nfs://HOST[,HOST…][:PORT]/EXPORT/PATH[?OPTION=VALUE[&…]]. The hosts are addresses of one server, over
/// which the connections are spread. Options: nfsport, mountport, uid, gid, mode, connections, version.
struct NfsUrl {
    std::vector<std::string> hosts;  ///< lower case, IPv6 without brackets; one at least
    std::string path;                ///< "/export/path": absolute, without "//", "." and a '/' at its end
    std::optional<unsigned> nfs_port, mount_port, connections;
    std::optional<std::uint32_t> uid, gid;
    std::optional<NfsMode> mode;

    /// "nfs://HOST/export/path", with the first host: the same for all spellings of the rest.
    [[nodiscard]] std::string identity() const;
};

/// EINVAL with what is wrong and what is allowed. Version 4 is refused: it is used through the kernel's
/// client and a directory.
Result<NfsUrl> parse_nfs_url(std::string_view source);

/// Puts the URL's options into the settings, over what stands there; with nfs.mode hard the deadline becomes
/// years. Nothing for another kind of source. Doing it again changes nothing.
Result<void> apply_nfs_url(Settings& settings);

/// Whether an NFS server that is away is waited for, however long (nfs.mode hard). After apply_nfs_url.
bool waits_for_ever(const Settings& settings);

}  // namespace tierfs
