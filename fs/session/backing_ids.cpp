#include "fs/session/backing_ids.hpp"

#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>

#include "config/base/fault_point.hpp"
#include "config/base/file_descriptor.hpp"

namespace tierfs {

namespace {

// Of the kernel's include/uapi/linux/fuse.h, which may be newer than the system's.
struct BackingMap {
    std::int32_t fd;
    std::uint32_t flags;
    std::uint64_t padding;
};
constexpr unsigned long kBackingOpen = _IOW(229, 1, BackingMap);
constexpr unsigned long kBackingClose = _IOW(229, 2, std::uint32_t);

bool is_stacked(const std::string& folder) {
    constexpr long kOverlay = 0x794c7630;
    constexpr long kFuse = 0x65735546;
    struct statfs status {};
    if (TIERFS_FAULT_CALL("passthrough.statfs", ::statfs(folder.c_str(), &status)) != 0) return false;
    return status.f_type == kOverlay || status.f_type == kFuse;
}

}  // namespace

Result<std::int32_t> KernelBackingIds::add(int file) {
    BackingMap map{file, 0, 0};
    const int id = TIERFS_FAULT_CALL("passthrough.add", ::ioctl(device_, kBackingOpen, &map));
    if (id <= 0) return fail(system_error(id < 0 ? errno : EIO, "registering a file for passthrough"));
    return id;
}

void KernelBackingIds::remove(std::int32_t id) {
    auto number = static_cast<std::uint32_t>(id);
    // Fails only when the connection has ended, which took all of them along.
    [[maybe_unused]] const int done = ::ioctl(device_, kBackingClose, &number);
}

Result<void> try_backing_ids(BackingIds& ids) {
    const FileDescriptor file(::memfd_create("passthrough", MFD_CLOEXEC));
    if (!file) return fail(system_error(errno, "a file to try passthrough with"));
    const auto id = ids.add(file.get());
    if (!id) return fail(id.error());
    ids.remove(*id);
    return {};
}

std::uint32_t stack_depth(const std::vector<std::string>& folders) {
    return std::any_of(folders.begin(), folders.end(), is_stacked) ? 2 : 1;
}

}  // namespace tierfs
