// bench/iobench: the measuring instrument, and the generator of the data it measures. Nothing of the file
// system itself uses it; it uses config/ alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace tierfs::iobench {

/// The output function of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// 2014).
inline std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/// A seed for one thing (a file, a run) made of the seed of the whole and the thing's number.
inline std::uint64_t derive_seed(std::uint64_t seed, std::uint64_t number) {
    return mix(mix(seed + 0x9e3779b97f4a7c15ULL) ^ (number + 1) * 0xd1342543de82ef95ULL);
}

/// SplitMix64: the same numbers on every machine, unlike the distributions of <random>. Not for secrets.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }
    /// 0 … bound-1; bound > 0. The bias is below bound/2^64.
    std::uint64_t below(std::uint64_t bound) {
        __extension__ using Wide = unsigned __int128;
        return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
    }

  private:
    std::uint64_t state_;
};

/// Fisher-Yates with our own generator, so that an order belongs to its seed.
template <typename T>
void shuffle(std::vector<T>& items, std::uint64_t seed) {
    Random random(seed);
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

/// Fills `out` with bytes offset … offset+out.size() of the endless stream that belongs to `seed`: any part
/// can be made without the parts before it. `offset` is a multiple of 8.
void random_bytes(std::uint64_t seed, std::uint64_t offset, std::span<std::byte> out);

}  // namespace tierfs::iobench
