// CRC-32C (Castagnoli), the checksum of iSCSI (RFC 3720, appendix B.4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tierfs {

/// crc32c of `data`, going on from `crc` (0 at the start; the result of the bytes before otherwise).
/// Thread-safe. Uses SSE4.2 where the processor has it.
std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> data);

/// The portable version, for machines without SSE4.2 and for tests of the other.
std::uint32_t crc32c_portable(std::uint32_t crc, std::span<const std::byte> data);

}  // namespace tierfs
