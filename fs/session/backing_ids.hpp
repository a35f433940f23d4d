// Files that the kernel reads by itself (FUSE passthrough, Linux 6.9): registering them with a connection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs {

/// Numbers of registered files, as replies to OPEN carry them. Thread-safe.
class BackingIds {
  public:
    virtual ~BackingIds() = default;
    /// Registers a file, which stays open in the kernel; the descriptor may be closed. Errors: errno of the
    /// ioctl: EPERM without CAP_SYS_ADMIN, ELOOP for a file system that is stacked itself (see stack_depth),
    /// EOPNOTSUPP and ENOTTY of a kernel that cannot.
    virtual Result<std::int32_t> add(int file) = 0;
    /// Files that are open with it go on.
    virtual void remove(std::int32_t id) = 0;
};

/// For `tierfs status`.
struct PassthroughStatus {
    bool enabled = false;
    std::string reason;  ///< why not; empty when enabled
    std::uint64_t opens = 0, open_files = 0;
};

/// Those of the connection that `device`, a descriptor of /dev/fuse, belongs to; must stay open.
class KernelBackingIds final : public BackingIds {
  public:
    explicit KernelBackingIds(int device) : device_(device) {}
    Result<std::int32_t> add(int file) override;
    void remove(std::int32_t id) override;

  private:
    int device_;
};

/// Whether the kernel registers files for us at all, by one that goes again at once. Errors: as add().
Result<void> try_backing_ids(BackingIds& ids);

/// How deep files of these folders make the mount stacked: 2 where one lies on overlayfs or FUSE, which may
/// be stacked on other file systems, else 1. The kernel's limit is 2, and a mount of 2 cannot be a layer of
/// an overlay itself.
std::uint32_t stack_depth(const std::vector<std::string>& folders);

}  // namespace tierfs
