// Tables of a fixed size of the objects that are read often, and of the ones given up lately.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/origin/object.hpp"

namespace tierfs {

/// Counts reads of objects up to kMost, two bits each, by content id: 512 KiB. Two objects may share a
/// counter; then either seems to be read more often than it is. When half of the counters are in use all are
/// halved, so that they always say something of late (as in Einziger et al., "TinyLFU: A Highly Efficient
/// Cache Admission Policy", ACM Transactions on Storage 2017, section 3.3). Thread-safe, without locks.
class ReadHeat {
  public:
    static constexpr unsigned kMost = 3;
    static constexpr std::size_t kCounters = std::size_t{1} << 21;

    ReadHeat();

    /// A part of an object was read. Reading all of it counts once, in as many pieces as it may be: the one
    /// counts that has a certain byte, another one in each object.
    void read(const ContentId& id, std::uint64_t offset, std::uint64_t length, std::uint64_t object_size);
    [[nodiscard]] unsigned get(const ContentId& id) const;
    void set(const ContentId& id, unsigned reads);

  private:
    static constexpr std::size_t kPerWord = 32;
    using Words = std::array<std::atomic<std::uint64_t>, kCounters / kPerWord>;

    void halve();

    std::unique_ptr<Words> words_;
    std::atomic<std::int64_t> in_use_{0};  ///< counters above 0, about
    std::atomic_flag halving_ = ATOMIC_FLAG_INIT;
};

/// What left a cache of late: a fingerprint of 32 bits and a time for each, 131,072 of them in 1 MiB, eight
/// ways a set, the oldest way goes. `time` is the caller's, and may be anything that grows: bytes given up.
/// Thread-safe, without locks; what two threads put into one set at the same moment, one of them may lose.
class GhostTable {
  public:
    GhostTable();

    void put(const ContentId& id, std::uint64_t time);
    /// Whether it was put at most `window` ago; forgets it.
    bool take(const ContentId& id, std::uint64_t time, std::uint64_t window);

  private:
    static constexpr std::size_t kWays = 8, kSets = 16384;
    static constexpr unsigned kTimeShift = 12;                  ///< so that 32 bits last for 16 TiB
    using Set = std::array<std::atomic<std::uint64_t>, kWays>;  ///< fingerprint, time; 0: empty

    static std::uint32_t fingerprint(const ContentId& id) {
        const auto bits = static_cast<std::uint32_t>(id.low >> 32U);
        return bits == 0 ? 1 : bits;
    }
    Set& set_of(const ContentId& id) { return (*sets_)[id.high % kSets]; }

    std::unique_ptr<std::array<Set, kSets>> sets_;
};

}  // namespace tierfs
