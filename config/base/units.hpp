// Sizes and durations as people write them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/base/result.hpp"

namespace tierfs {

inline constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

/// "Forever", for durations that may be unlimited.
inline constexpr std::chrono::milliseconds kForever = std::chrono::milliseconds::max();

/// "64M", "1.5GiB", "500 GiB", "64k", "4096": bytes. K, M, G, T, large or small, are powers of 1024, with or
/// without "i" or "iB"; "B" alone is allowed; "kB", "MB"… are refused, with how it is written, since they may
/// mean 1000. EINVAL with what was found and what is allowed otherwise; ERANGE over 2^63-1.
Result<std::uint64_t> parse_size(std::string_view text);

/// "10s", "1.5m", "250ms", "2h", "1d", "forever" (kForever); "10 min", "10sec", "2 hours". A number without a
/// unit is refused, but for 0.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// One of `count` equal shares.
struct Share {
    std::uint64_t index = 0, count = 1;
};
/// "I/N", I from 0 to N - 1: share I of N. EINVAL otherwise.
Result<Share> parse_share(std::string_view text);

/// "4": how many times something, from 1 to a million; nothing: it is no such number.
std::optional<std::uint64_t> parse_times(std::string_view text);

/// "1.5 GiB", "512 B": for people.
std::string format_size(std::uint64_t bytes);

/// What parse_size reads back exactly: "64M", "1234".
std::string format_size_exact(std::uint64_t bytes);

/// What parse_duration reads back exactly: "60s", "250ms", "forever".
std::string format_duration(std::chrono::milliseconds duration);

}  // namespace tierfs
