#include "tiering/nvme/probe.hpp"

#include <sys/random.h>

#include <algorithm>
#include <system_error>

#include "backends/disk/disk_file.hpp"
#include "config/base/fault_point.hpp"

namespace tierfs {
namespace {

Result<void> write_and_read(const std::filesystem::path& path) {
    if (const int code = TIERFS_FAULT("nvme.probe"); code != 0)
        return fail(system_error(code, path.native()));
    auto file = DiskFile::open(path, {.write = true, .create = true, .truncate = true});
    if (!file) return fail(file.error());
    AlignedBuffer written(kDiskAlignment), got(kDiskAlignment);
    std::fill(written.data(), written.data() + written.size(), std::byte{0});
    // Other bytes each time: what an earlier probe left must not pass for this one's.
    (void)::getrandom(written.data(), 16, 0);
    if (auto done = file->write(written.span(), 0); !done) return done;
    if (auto done = file->sync_data(); !done) return done;
    const auto read = file->read(got.span(), 0);
    if (!read) return fail(read.error());
    if (*read != got.size() || !std::equal(got.data(), got.data() + got.size(), written.data()))
        return fail(EIO, path.native() + ": what was written does not come back");
    return {};
}

}  // namespace

Result<void> probe_device(const std::filesystem::path& folder) {
    const auto path = folder / "probe";
    auto done = write_and_read(path);
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    return done;
}

}  // namespace tierfs
