#include "fs/stage/place.hpp"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "config/base/aligned_buffer.hpp"
#include "config/base/file_descriptor.hpp"
#include "fs/control/mountinfo.hpp"

namespace tierfs::stage {

namespace {

constexpr std::size_t kTrial = 4U << 20U;

std::string folder_of(const std::string& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return path;
    const auto parent = std::filesystem::path(path).parent_path();
    return parent.empty() ? "." : parent.string();
}

FileDescriptor nameless_file(const std::string& path, int flags) {
    return FileDescriptor(::open(folder_of(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
}

/// STATX_DIOALIGN answers for regular files only.
void ask_alignment(const std::string& path, gds::Place& place) {
    struct statx facts {};
    const auto answered = [&](int fd, const char* name, int flags) {
        return ::statx(fd, name, flags, STATX_DIOALIGN, &facts) == 0 &&
               (facts.stx_mask & STATX_DIOALIGN) != 0;
    };
    if (place.is_file) {
        place.alignment_known = answered(AT_FDCWD, path.c_str(), 0);
    } else if (const auto file = nameless_file(path, 0)) {
        place.alignment_known = answered(file.get(), "", AT_EMPTY_PATH);
    }
    if (!place.alignment_known) return;
    place.memory_alignment = facts.stx_dio_mem_align;
    place.offset_alignment = facts.stx_dio_offset_align;
}

bool cached(int fd) {
    void* const map = ::mmap(nullptr, kTrial, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return false;
    std::vector<unsigned char> pages(kTrial / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
    const bool known = ::mincore(map, kTrial, pages.data()) == 0;
    ::munmap(map, kTrial);
    return known &&
           std::any_of(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1U) != 0; });
}

void judge_extents(int fd, gds::Findings& findings) {
    constexpr std::size_t kExtents = 64;
    std::vector<std::byte> memory(sizeof(struct fiemap) + kExtents * sizeof(struct fiemap_extent));
    auto* const map = reinterpret_cast<struct fiemap*>(memory.data());
    map->fm_length = FIEMAP_MAX_OFFSET;
    map->fm_flags = FIEMAP_FLAG_SYNC;
    map->fm_extent_count = kExtents;
    if (::ioctl(fd, FS_IOC_FIEMAP, map) != 0) {
        gds::skip(findings, "extents", "where blocks of files are is not known",
                  std::string("the file system does not answer FIEMAP: ") + std::strerror(errno));
        return;
    }
    constexpr std::uint32_t kBad = FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED |
                                   FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_UNKNOWN;
    std::uint32_t flags = 0;
    for (std::uint32_t i = 0; i < map->fm_mapped_extents; ++i) flags |= map->fm_extents[i].fe_flags;
    if ((flags & kBad) != 0) {
        gds::fail(findings, "extents", "blocks of a file that was just written are not plain ones",
                  {"Encoded, inline and unwritten blocks cannot be read directly.",
                   "Stage onto a file system without compression and encryption."});
        return;
    }
    gds::pass(findings, "extents",
              "the 4 MiB have " + std::to_string(map->fm_mapped_extents) + " extents, plainly on the device");
}

}  // namespace

Result<gds::Place> look_at_place(const std::string& path) {
    struct statfs space {};
    if (::statfs(path.c_str(), &space) != 0) return fail(system_error(errno, path));
    struct statx facts {};
    if (::statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS | STATX_MNT_ID, &facts) != 0)
        return fail(system_error(errno, path));
    gds::Place place;
    std::error_code ignored;
    const auto real = std::filesystem::canonical(path, ignored);
    place.path = ignored ? path : real.string();
    place.magic = static_cast<std::uint32_t>(space.f_type);
    place.block_size = static_cast<std::uint64_t>(space.f_bsize);
    place.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * place.block_size;
    place.total_bytes = static_cast<std::uint64_t>(space.f_blocks) * place.block_size;
    place.major = facts.stx_dev_major;
    place.minor = facts.stx_dev_minor;
    place.is_file = S_ISREG(facts.stx_mode);
    place.file_size = facts.stx_size;
    place.file_allocated = static_cast<std::uint64_t>(facts.stx_blocks) * 512;
    auto mounts = read_mountinfo();
    if (!mounts) return fail(mounts.error());
    const auto mount = std::find_if(mounts->begin(), mounts->end(), [&](const MountEntry& one) {
        return (facts.stx_mask & STATX_MNT_ID) != 0
                   ? one.id == facts.stx_mnt_id
                   : one.major == facts.stx_dev_major && one.minor == facts.stx_dev_minor;
    });
    if (mount != mounts->end()) {
        place.mountpoint = mount->mountpoint;
        place.type = mount->type;
        place.source = mount->source;
        place.options = mount->options;
        place.super_options = mount->super_options;
    }
    ask_alignment(path, place);
    return place;
}

gds::Findings try_direct_io(const std::string& path) {
    gds::Findings findings;
    const auto file = nameless_file(path, O_DIRECT);
    if (!file) {
        gds::skip(findings, "direct-io", "direct I/O was not tried",
                  "no file can be made there: " + std::string(std::strerror(errno)));
        return findings;
    }
    AlignedBuffer buffer(kTrial);
    std::memset(buffer.data(), 'x', kTrial);
    const bool moved = ::pwrite(file.get(), buffer.data(), kTrial, 0) == static_cast<ssize_t>(kTrial) &&
                       ::fsync(file.get()) == 0 &&
                       ::pread(file.get(), buffer.data(), kTrial, 0) == static_cast<ssize_t>(kTrial);
    if (!moved) {
        gds::skip(findings, "direct-io", "direct I/O was not tried",
                  "4 MiB could not be written and read: " + std::string(std::strerror(errno)));
        return findings;
    }
    if (cached(file.get())) {
        gds::fail(
            findings, "direct-io", "4 MiB by direct I/O went through the page cache",
            {"The file system takes O_DIRECT but reads and writes through the processor's memory.",
             "Look for a device that needs stable writes, for data journalling, compression, encryption."});
    } else {
        gds::pass(findings, "direct-io", "4 MiB written and read by direct I/O went past the page cache");
    }
    judge_extents(file.get(), findings);
    return findings;
}

}  // namespace tierfs::stage
