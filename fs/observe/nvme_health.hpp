// The health that an NVMe controller reports of itself: fs/observe/host.hpp asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tierfs {

/// Of the SMART / Health Information log (NVM Express Base Specification 2.0, 5.16.1.3, log page 02h). Plain
/// value.
struct NvmeHealth {
    static constexpr std::size_t kLogSize = 512;
    /// Bits of critical_warning.
    static constexpr unsigned kSpareLow = 1, kTemperature = 2, kUnreliable = 4, kReadOnly = 8;

    unsigned critical_warning = 0;
    int celsius = 0;
    unsigned spare_percent = 0;           ///< of the spare blocks, what is left
    unsigned spare_threshold = 0;         ///< percent; the vendor's
    unsigned worn_percent = 0;            ///< of the endurance that the vendor estimates; may pass 100
    std::uint64_t media_errors = 0;       ///< data that the device could not give back whole
    std::uint64_t throttled_minutes = 0;  ///< hotter than the warning or the critical temperature
};

NvmeHealth parse_nvme_health(std::span<const std::byte, NvmeHealth::kLogSize> log);

/// Of a controller ("nvme0"), by an admin command to its device in /dev, which waits for the controller; for
/// root. None: it cannot be asked.
std::optional<NvmeHealth> read_nvme_health(const std::string& controller);

}  // namespace tierfs
