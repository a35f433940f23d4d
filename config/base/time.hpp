// Times as nanoseconds since 1970, and their conversions.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace tierfs {

inline constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// Nanoseconds since 1970; what lies outside of the years 1678 to 2261 becomes their end.
constexpr std::int64_t to_ns(std::int64_t seconds, std::int64_t nanoseconds) {
    constexpr std::int64_t kMost = INT64_MAX / kNsPerSecond - 1;
    if (seconds > kMost) return INT64_MAX;
    return seconds < -kMost ? INT64_MIN : seconds * kNsPerSecond + nanoseconds;
}

inline std::int64_t to_ns(const timespec& time) {
    return to_ns(time.tv_sec, time.tv_nsec);
}

/// Before 1970, too, the nanoseconds count upwards: from 0 to 999,999,999.
constexpr timespec to_timespec(std::int64_t ns) {
    const std::int64_t before = ns % kNsPerSecond < 0 ? 1 : 0;
    return {ns / kNsPerSecond - before, ns % kNsPerSecond + before * kNsPerSecond};
}

/// The clock of this machine's wall.
inline std::int64_t wall_clock_ns() {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

/// The time of a directory, which a bucket may have none of (0): its keys alone make it. That of the mount then, and not 1970.
inline std::int64_t directory_time_ns(std::int64_t kept) {
    static const std::int64_t first_asked = wall_clock_ns();
    return kept != 0 ? kept : first_asked;
}

}  // namespace tierfs
