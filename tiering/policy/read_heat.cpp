#include "tiering/policy/read_heat.hpp"

#include <algorithm>
#include <bit>

namespace tierfs {
namespace {

constexpr std::uint64_t kCounterMask = 3;
constexpr std::uint64_t kLowBits = 0x5555555555555555U;  ///< of each counter of a word

constexpr std::int64_t kMostInUse = ReadHeat::kCounters / 2;

struct Place {
    std::size_t word;
    unsigned shift;
};

Place place_of(const ContentId& id) {
    const std::size_t counter = id.high % ReadHeat::kCounters;
    return {counter / 32, static_cast<unsigned>(2 * (counter % 32))};
}

}  // namespace

ReadHeat::ReadHeat() : words_(std::make_unique<Words>()) {}

void ReadHeat::read(const ContentId& id, std::uint64_t offset, std::uint64_t length,
                    std::uint64_t object_size) {
    const std::uint64_t byte = object_size == 0 ? 0 : id.low % object_size;
    if (byte < offset || byte - offset >= length) return;
    const auto [number, shift] = place_of(id);
    auto& word = (*words_)[number];
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    while (((seen >> shift) & kCounterMask) != kMost) {
        if (!word.compare_exchange_weak(seen, seen + (std::uint64_t{1} << shift), std::memory_order_relaxed))
            continue;
        const bool first = ((seen >> shift) & kCounterMask) == 0;
        if (first && in_use_.fetch_add(1, std::memory_order_relaxed) >= kMostInUse &&
            !halving_.test_and_set()) {
            halve();
            halving_.clear();
        }
        return;
    }
}

unsigned ReadHeat::get(const ContentId& id) const {
    const auto [number, shift] = place_of(id);
    return static_cast<unsigned>(((*words_)[number].load(std::memory_order_relaxed) >> shift) & kCounterMask);
}

void ReadHeat::set(const ContentId& id, unsigned reads) {
    const std::uint64_t value = std::min(reads, kMost);
    const auto [number, shift] = place_of(id);
    auto& word = (*words_)[number];
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    while (!word.compare_exchange_weak(seen, (seen & ~(kCounterMask << shift)) | (value << shift),
                                       std::memory_order_relaxed)) {
    }
    const bool was_used = ((seen >> shift) & kCounterMask) != 0;
    if (was_used && value == 0) in_use_.fetch_sub(1, std::memory_order_relaxed);
    if (!was_used && value != 0) in_use_.fetch_add(1, std::memory_order_relaxed);
}

void ReadHeat::halve() {
    std::int64_t in_use = 0;
    for (auto& word : *words_) {
        std::uint64_t seen = word.load(std::memory_order_relaxed);
        while (!word.compare_exchange_weak(seen, (seen >> 1U) & kLowBits, std::memory_order_relaxed)) {
        }
        in_use += std::popcount((seen >> 1U) & kLowBits);
    }
    in_use_.store(in_use, std::memory_order_relaxed);
}

GhostTable::GhostTable() : sets_(std::make_unique<std::array<Set, kSets>>()) {}

void GhostTable::put(const ContentId& id, std::uint64_t time) {
    const auto now = static_cast<std::uint32_t>(time >> kTimeShift);
    const std::uint32_t mark = fingerprint(id);
    Set& ways = set_of(id);
    std::atomic<std::uint64_t>* target = nullptr;
    std::uint32_t oldest = 0;
    for (auto& way : ways) {
        const std::uint64_t value = way.load(std::memory_order_relaxed);
        const auto age = now - static_cast<std::uint32_t>(value);
        if (value == 0 || value >> 32U == mark) {
            target = &way;
            break;
        }
        if (target == nullptr || age > oldest) {
            target = &way;
            oldest = age;
        }
    }
    target->store((std::uint64_t{mark} << 32U) | now, std::memory_order_relaxed);
}

bool GhostTable::take(const ContentId& id, std::uint64_t time, std::uint64_t window) {
    const auto now = static_cast<std::uint32_t>(time >> kTimeShift);
    const std::uint32_t mark = fingerprint(id);
    for (auto& way : set_of(id)) {
        const std::uint64_t value = way.load(std::memory_order_relaxed);
        if (value >> 32U != mark) continue;
        way.store(0, std::memory_order_relaxed);
        return now - static_cast<std::uint32_t>(value) <= window >> kTimeShift;
    }
    return false;
}

}  // namespace tierfs
