#include "bench/iobench/data/random.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tierfs::iobench {

void random_bytes(std::uint64_t seed, std::uint64_t offset, std::span<std::byte> out) {
    static_assert(std::endian::native == std::endian::little, "the stream is defined as little-endian words");
    std::uint64_t word = offset / 8;
    for (std::size_t at = 0; at < out.size(); at += 8, ++word) {
        const std::uint64_t value = mix(seed + (word + 1) * 0x9e3779b97f4a7c15ULL);
        std::memcpy(out.data() + at, &value, std::min<std::size_t>(8, out.size() - at));
    }
}

}  // namespace tierfs::iobench
