// Modes under POSIX access control lists: what these leave of the mode that stat(2) shows, acl(5).
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tierfs {

/// The permissions (0-7) of the owning group in the value of "system.posix_acl_access": its own entry, ANDed
/// with the mask where there is one. Empty for what is no such value (linux/posix_acl_xattr.h). Pure.
std::optional<std::uint32_t> owning_group_permissions(std::span<const std::byte> value);

/// Modes as they hold for the owning group. With an ACL the group bits of st_mode are the mask, the most that
/// any named user or group gets; who checks permissions by the mode alone would let the owning group in.
/// Thread-safe.
class AclReader {
  public:
    /// Attributes::mode and acl.
    struct Modes {
        std::uint32_t mode = 0, acl = 0;
    };
    /// `status` is what stat(2) said of `path`; the last link is not followed. The group bits of the mode are
    /// dropped when the ACL cannot be read or understood.
    [[nodiscard]] Modes modes_of(const std::string& path, const struct stat& status) const;
    /// The same for what a descriptor refers to, O_PATH included.
    [[nodiscard]] Modes modes_of(int descriptor, const struct stat& status) const;

  private:
    using Getter = ssize_t (*)(const char*, const char*, void*, std::size_t);
    [[nodiscard]] Modes modes_by(Getter getter, const std::string& path, const struct stat& status) const;

    /// The file system that was found last to know no ACLs: it is not asked again for each file.
    mutable std::atomic<dev_t> without_acls_{0};
};

}  // namespace tierfs
