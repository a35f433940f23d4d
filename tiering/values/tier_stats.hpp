// Figures of one tier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tierfs {

/// One device of a tier. Bytes.
struct DeviceStats {
    std::string path;  ///< as configured
    std::string state = "normal";
    std::string reason;  ///< why it is not normal
    std::uint64_t limit_bytes = 0, used_bytes = 0;
};

struct TierStats {
    std::uint64_t limit_bytes = 0, used_bytes = 0, hits = 0, misses = 0, evicted_bytes = 0, written_bytes = 0;
    /// Of written_bytes, alone on NVMe: of objects that came, and that were moved before an extent went; the
    /// rest is tables and padding.
    std::uint64_t admitted_bytes = 0, reinserted_bytes = 0;
    /// What compressed objects of extents would have taken more, of those written since the start; and
    /// entries found that a later version compressed in a way that this one does not know.
    std::uint64_t codec_saved_bytes = 0, unknown_codecs = 0;
    std::uint64_t pinned_bytes = 0;  ///< of what `tierfs pin` names (gauge)
    std::uint64_t dropped = 0;       ///< pieces not written since the device stalled
    /// Of NVMe: reads, or looks for what they want, that went around a device since it hesitated.
    std::uint64_t bypassed = 0;
    std::uint64_t unwritten_bytes = 0;  ///< that NVMe has taken and not written yet (gauge)
    std::string state = "normal";       ///< normal, full, unstable, down
    std::vector<DeviceStats> devices;
};

}  // namespace tierfs
