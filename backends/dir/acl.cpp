#include "backends/dir/acl.hpp"

#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "backends/origin/origin.hpp"
#include "config/base/fault_point.hpp"

namespace tierfs {

namespace {

constexpr std::size_t kLongestAcl = 8192;  // some thousand entries; ext4 and XFS hold fewer

}  // namespace

std::optional<std::uint32_t> owning_group_permissions(std::span<const std::byte> value) {
    posix_acl_xattr_header header{};
    posix_acl_xattr_entry entry{};
    if (value.size() < sizeof(header)) return std::nullopt;
    std::memcpy(&header, value.data(), sizeof(header));
    if (le32toh(header.a_version) != POSIX_ACL_XATTR_VERSION) return std::nullopt;
    std::optional<std::uint32_t> group;
    std::uint32_t mask = 7;
    for (auto rest = value.subspan(sizeof(header)); !rest.empty(); rest = rest.subspan(sizeof(entry))) {
        if (rest.size() < sizeof(entry)) return std::nullopt;
        std::memcpy(&entry, rest.data(), sizeof(entry));
        const std::uint32_t permissions = le16toh(entry.e_perm) & 7U;
        if (le16toh(entry.e_tag) == ACL_GROUP_OBJ) group = permissions;
        if (le16toh(entry.e_tag) == ACL_MASK) mask = permissions;
    }
    if (!group) return std::nullopt;
    return *group & mask;
}

AclReader::Modes AclReader::modes_of(const std::string& path, const struct stat& status) const {
    return modes_by(::lgetxattr, path, status);
}

AclReader::Modes AclReader::modes_of(int descriptor, const struct stat& status) const {
    // fgetxattr(2) refuses O_PATH descriptors; the link in /proc leads to the file itself.
    return modes_by(::getxattr, "/proc/self/fd/" + std::to_string(descriptor), status);
}

AclReader::Modes AclReader::modes_by(Getter getter, const std::string& path,
                                     const struct stat& status) const {
    const std::uint32_t mode = status.st_mode & 07777U;
    if ((mode & S_IRWXG) == 0 || S_ISLNK(status.st_mode) || without_acls_ == status.st_dev) return {mode, 0};
    std::array<std::byte, kLongestAcl> value;
    const ssize_t length = TIERFS_FAULT_CALL(
        "dir.acl", getter(path.c_str(), "system.posix_acl_access", value.data(), value.size()));
    if (length < 0 && errno == ENODATA) return {mode, 0};
    if (length < 0 && errno == ENOTSUP) {
        without_acls_ = status.st_dev;
        return {mode, 0};
    }
    const std::uint32_t others = mode & ~static_cast<std::uint32_t>(S_IRWXG);
    if (length < 0) return {others, 0};
    const auto group = owning_group_permissions(std::span(value).first(static_cast<std::size_t>(length)));
    if (!group) return {others, 0};
    return {others | (*group << 3U & mode), kHasAcl | (mode & kAclMask)};
}

}  // namespace tierfs
