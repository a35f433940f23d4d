#include "fs/observe/nvme_health.hpp"

#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <limits>

#include "config/base/file_descriptor.hpp"

namespace tierfs {

namespace {

/// Little-endian.
std::uint64_t number_at(std::span<const std::byte> log, std::size_t at, std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8U | std::to_integer<std::uint64_t>(log[at + i]);
    return value;
}

/// The log's counters have 16 bytes; nobody counts so far.
std::uint64_t counter_at(std::span<const std::byte> log, std::size_t at) {
    return number_at(log, at + 8, 8) != 0 ? std::numeric_limits<std::uint64_t>::max() : number_at(log, at, 8);
}

}  // namespace

NvmeHealth parse_nvme_health(std::span<const std::byte, NvmeHealth::kLogSize> log) {
    NvmeHealth health;
    health.critical_warning = static_cast<unsigned>(number_at(log, 0, 1));
    health.celsius = static_cast<int>(number_at(log, 1, 2)) - 273;
    health.spare_percent = static_cast<unsigned>(number_at(log, 3, 1));
    health.spare_threshold = static_cast<unsigned>(number_at(log, 4, 1));
    health.worn_percent = static_cast<unsigned>(number_at(log, 5, 1));
    health.media_errors = counter_at(log, 160);
    health.throttled_minutes = number_at(log, 192, 4) + number_at(log, 196, 4);
    return health;
}

std::optional<NvmeHealth> read_nvme_health(const std::string& controller) {
    if (controller.find('/') != std::string::npos) return std::nullopt;
    const auto path = "/dev/" + controller;
    const FileDescriptor device(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!device) return std::nullopt;
    constexpr unsigned kGetLogPage = 2, kHealth = 2, kAllNamespaces = 0xffffffff;
    std::array<std::byte, NvmeHealth::kLogSize> log{};
    nvme_admin_cmd command{};
    command.opcode = kGetLogPage;
    command.nsid = kAllNamespaces;
    command.addr = reinterpret_cast<std::uintptr_t>(log.data());
    command.data_len = log.size();
    command.cdw10 = (log.size() / 4 - 1) << 16U | kHealth;
    command.timeout_ms = 2000;
    if (::ioctl(device.get(), NVME_IOCTL_ADMIN_CMD, &command) != 0) return std::nullopt;
    return parse_nvme_health(log);
}

}  // namespace tierfs
