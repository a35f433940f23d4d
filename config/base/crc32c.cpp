#include "config/base/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tierfs {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78U;  // 0x1EDC6F41, bits reversed

// Eight tables, so that eight bytes are folded at a time ("slicing by 8").
constexpr std::array<std::array<std::uint32_t, 256>, 8> make_tables() {
    std::array<std::array<std::uint32_t, 256>, 8> tables{};
    for (std::uint32_t value = 0; value < 256; ++value) {
        std::uint32_t crc = value;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
        tables[0][value] = crc;
    }
    for (std::size_t table = 1; table < 8; ++table) {
        for (std::size_t value = 0; value < 256; ++value) {
            const std::uint32_t before = tables[table - 1][value];
            tables[table][value] = (before >> 8) ^ tables[0][before & 0xFFU];
        }
    }
    return tables;
}

constexpr auto kTables = make_tables();

std::uint64_t load64(const std::byte* from) {
    std::uint64_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
}

#if defined(__x86_64__)
constexpr std::size_t kLaneBytes = 4096;

/// What kLaneBytes zero bytes make of a state. A CRC is linear: the state behind two pieces is that behind
/// the first, taken over so many zero bytes, xor that of the second begun at 0.
class OverALane {
  public:
    OverALane() {
        std::array<std::uint32_t, 32> of_bit{};
        for (std::size_t bit = 0; bit < of_bit.size(); ++bit) {
            std::uint32_t state = 1U << bit;
            for (std::size_t i = 0; i < kLaneBytes; ++i) state = (state >> 8) ^ kTables[0][state & 0xFFU];
            of_bit[bit] = state;
        }
        for (std::size_t byte = 0; byte < tables_.size(); ++byte)
            for (std::size_t value = 0; value < 256; ++value)
                for (std::size_t bit = 0; bit < 8; ++bit)
                    if ((value >> bit & 1U) != 0) tables_[byte][value] ^= of_bit[8 * byte + bit];
    }

    [[nodiscard]] std::uint32_t operator()(std::uint32_t state) const {
        return tables_[0][state & 0xFFU] ^ tables_[1][state >> 8 & 0xFFU] ^ tables_[2][state >> 16 & 0xFFU] ^
               tables_[3][state >> 24];
    }

  private:
    std::array<std::array<std::uint32_t, 256>, 4> tables_{};
};

/// The instruction takes three cycles, but one can begin in each: three lanes side by side.
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(std::uint32_t crc, const std::byte* data,
                                                             std::size_t size) {
    static const OverALane over_a_lane;
    std::uint64_t state = crc ^ 0xFFFFFFFFU;
    for (; size >= 3 * kLaneBytes; size -= 3 * kLaneBytes, data += 3 * kLaneBytes) {
        std::uint64_t second = 0;
        std::uint64_t third = 0;
        for (const std::byte* at = data; at < data + kLaneBytes; at += 8) {
            state = _mm_crc32_u64(state, load64(at));
            second = _mm_crc32_u64(second, load64(at + kLaneBytes));
            third = _mm_crc32_u64(third, load64(at + 2 * kLaneBytes));
        }
        state = over_a_lane(static_cast<std::uint32_t>(state)) ^ second;
        state = over_a_lane(static_cast<std::uint32_t>(state)) ^ third;
    }
    for (; size >= 8; size -= 8, data += 8) state = _mm_crc32_u64(state, load64(data));
    auto rest = static_cast<std::uint32_t>(state);
    for (; size > 0; --size, ++data) rest = _mm_crc32_u8(rest, std::to_integer<unsigned char>(*data));
    return rest ^ 0xFFFFFFFFU;
}

bool has_sse42() {
    static const bool yes = __builtin_cpu_supports("sse4.2") != 0;
    return yes;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::uint32_t crc, std::span<const std::byte> data) {
    std::uint32_t state = crc ^ 0xFFFFFFFFU;
    const std::byte* at = data.data();
    std::size_t size = data.size();
    for (; size >= 8; size -= 8, at += 8) {
        const std::uint64_t word = load64(at) ^ state;
        state = 0;
        for (std::size_t byte = 0; byte < 8; ++byte) {
            state ^= kTables[7 - byte][(word >> (8 * byte)) & 0xFFU];
        }
    }
    for (; size > 0; --size, ++at) {
        state = (state >> 8) ^ kTables[0][(state ^ std::to_integer<std::uint32_t>(*at)) & 0xFFU];
    }
    return state ^ 0xFFFFFFFFU;
}

std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> data) {
#if defined(__x86_64__)
    if (has_sse42()) return crc32c_sse42(crc, data.data(), data.size());
#endif
    return crc32c_portable(crc, data);
}

}  // namespace tierfs
