#include <array>
#include <cstring>

#include "bench/iobench/data/payload.hpp"
#include "bench/iobench/data/random.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::uint64_t kHead = 12, kTail = 4;  // length and its checksum; the data's checksum

/// CRC-32C (Castagnoli; RFC 3720 appendix B.4), reflected, a byte at a time.
std::uint32_t crc32c(std::span<const std::byte> bytes) {
    static constexpr auto kTable = [] {
        std::array<std::uint32_t, 256> table{};
        for (std::uint32_t i = 0; i < 256; ++i) {
            std::uint32_t value = i;
            for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78U : 0);
            table[i] = value;
        }
        return table;
    }();
    std::uint32_t crc = ~0U;
    for (const std::byte byte : bytes)
        crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
    return ~crc;
}

/// TensorFlow rotates and shifts the checksum, because data with checksums of itself in it is bad for a CRC.
std::uint32_t masked(std::uint32_t crc) {
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace

Result<Bytes> make_tfrecord(std::uint64_t seed, std::uint64_t size) {
    if (auto checked = check_size(Kind::tfrecord, size); !checked) return fail(checked.error());
    Bytes bytes(size);
    const std::uint64_t length = size - kHead - kTail;
    std::memcpy(bytes.data(), &length, sizeof length);
    const std::uint32_t head = masked(crc32c(std::span(bytes).first(sizeof length)));
    std::memcpy(&bytes[sizeof length], &head, sizeof head);
    const auto data = std::span(bytes).subspan(kHead, length);
    random_bytes(seed, 0, data);
    const std::uint32_t tail = masked(crc32c(data));
    std::memcpy(&bytes[kHead + length], &tail, sizeof tail);
    return bytes;
}

}  // namespace tierfs::iobench
