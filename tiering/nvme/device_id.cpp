#include "tiering/nvme/device_id.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string>

#include "config/base/fault_point.hpp"
#include "config/base/file_descriptor.hpp"

namespace tierfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "device";
constexpr std::size_t kDigits = 16;

Result<std::uint64_t> new_id() {
    std::uint64_t id = 0;
    while (id == 0) {
        if (::getrandom(&id, sizeof id, 0) != static_cast<ssize_t>(sizeof id))
            return fail(system_error(errno, "getrandom"));
    }
    return id;
}

/// Whole or not at all, and for good: records name the device by it from now on.
Result<void> write_id(const fs::path& folder, std::uint64_t id) {
    std::array<char, kDigits + 2> text{};
    std::snprintf(text.data(), text.size(), "%016llx\n", static_cast<unsigned long long>(id));
    const fs::path path = folder / kName;
    const fs::path fresh = folder / (std::string(kName) + ".new");
    const auto failed = [&] { return fail(system_error(errno, path.native())); };
    const FileDescriptor file(TIERFS_FAULT_CALL(
        "nvme.device.open",
        ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)));
    if (!file) return failed();
    const auto size = static_cast<ssize_t>(kDigits + 1);
    const auto written = TIERFS_FAULT_CALL("nvme.device.write",
                                           ::write(file.get(), text.data(), TIERFS_FAULT_SHORT(kDigits + 1)));
    if (written != size) {
        if (written >= 0) errno = ENOSPC;
        return failed();
    }
    if (TIERFS_FAULT_CALL("nvme.device.sync", ::fdatasync(file.get())) != 0) return failed();
    if (TIERFS_FAULT_CALL("nvme.device.rename", ::rename(fresh.c_str(), path.c_str())) != 0) return failed();
    const FileDescriptor names(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!names || TIERFS_FAULT_CALL("nvme.device.names", ::fsync(names.get())) != 0) return failed();
    return {};
}

}  // namespace

std::uint64_t read_device_id(const fs::path& folder) {
    const FileDescriptor file(::open((folder / kName).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    std::array<char, kDigits + 2> text{};
    if (!file || ::read(file.get(), text.data(), text.size()) != static_cast<ssize_t>(kDigits + 1)) return 0;
    std::uint64_t id = 0;
    const char* const end = text.data() + kDigits;
    const auto parsed = std::from_chars(text.data(), end, id, 16);
    return parsed.ec == std::errc() && parsed.ptr == end && *end == '\n' ? id : 0;
}

Result<std::uint64_t> device_id_of(const fs::path& folder,
                                   const std::function<bool(std::uint64_t)>& is_taken) {
    if (const auto id = read_device_id(folder); id != 0 && !is_taken(id)) return id;
    auto id = new_id();
    if (!id) return id;
    if (auto written = write_id(folder, *id); !written) return fail(written.error());
    return id;
}

}  // namespace tierfs
