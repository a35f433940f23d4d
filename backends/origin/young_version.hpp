// Versions of files that may change again without a sign of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "config/base/time.hpp"

namespace tierfs {

class Origin;
struct Attributes;

/// A version made of times (inode number, size, mtime, ctime) is the same before and after a change within one
/// tick of the clock that they come from. So a file that has just changed is shown with a mark behind its
/// version that no later look repeats: it is fetched anew when it is asked for again, and code that compares
/// versions leaves the mark out. Pure functions, but for outgrow().
inline constexpr char kYoungMark = '~';

/// Ticks of a kernel are 1 to 10 ms long; between two machines there is the difference of their clocks, too.
inline constexpr std::int64_t kLocalTick = 20'000'000, kRemoteTick = kNsPerSecond;

/// True where the file changed within the last tick. Times without fractions of a second come from clocks that tick
/// once a second or two; times far ahead are nobody's clock.
inline bool is_young(std::int64_t changed_ns, std::int64_t now_ns, std::int64_t tick_ns) {
    constexpr std::int64_t kFurthestAhead = 10 * kNsPerSecond;
    const auto age = now_ns - changed_ns;
    if (age < 0) return -age <= kFurthestAhead;
    return age < (changed_ns % kNsPerSecond == 0 ? 3 * kNsPerSecond : tick_ns);
}

inline bool is_marked_young(std::string_view version) {
    return version.find(kYoungMark) != std::string_view::npos;
}

/// The version without the mark, if it has one.
inline std::string_view unmarked(std::string_view version) {
    return version.substr(0, version.find(kYoungMark));
}

/// The version as it is to be shown of a file that was looked at `now`.
inline std::string shown_version(std::string version, std::int64_t changed_ns, std::int64_t now_ns,
                                 std::int64_t tick_ns) {
    if (version.empty() || !is_young(changed_ns, now_ns, tick_ns)) return version;
    return std::move(version) + kYoungMark + std::to_string(now_ns);
}

/// For what keeps a version for good (a pack, a staged copy): looks at a file again until it is not young any
/// more, for five seconds at most.
void outgrow(Origin& origin, const std::string& path, Attributes& attributes,
             const std::function<bool()>& stopped);

}  // namespace tierfs
