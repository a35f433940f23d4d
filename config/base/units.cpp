#include "config/base/units.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace tierfs {
namespace {

constexpr std::uint64_t kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
// Six decimals: enough for a person, and 10^6 * 1 TiB still fits 64 bits, so that no floating point is
// needed.
constexpr std::size_t kMostDecimals = 6;

struct Number {
    std::uint64_t whole = 0;
    std::uint64_t fraction = 0;  ///< numerator over `scale`
    std::uint64_t scale = 1;
    std::string_view unit;
};

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// "1.5GiB" -> 1, 5/10, "GiB". EINVAL without digits, ERANGE when the digits do not fit.
Result<Number> split(std::string_view text) {
    Number number;
    std::size_t at = 0;
    while (at < text.size() && is_digit(text[at])) {
        if (__builtin_mul_overflow(number.whole, std::uint64_t{10}, &number.whole) ||
            __builtin_add_overflow(number.whole, static_cast<std::uint64_t>(text[at] - '0'), &number.whole)) {
            return fail(ERANGE, "the number is too large");
        }
        ++at;
    }
    if (at == 0) return fail(EINVAL, "it does not start with a digit");
    if (at < text.size() && text[at] == '.') {
        const std::size_t start = ++at;
        while (at < text.size() && is_digit(text[at])) {
            if (at - start == kMostDecimals) return fail(EINVAL, "it has more than 6 decimals");
            number.fraction = number.fraction * 10 + static_cast<std::uint64_t>(text[at] - '0');
            number.scale *= 10;
            ++at;
        }
        if (at == start) return fail(EINVAL, "digits are missing after the point");
    }
    const std::size_t unit = text.find_first_not_of(' ', at);  // "500 GiB"
    number.unit = text.substr(unit == std::string_view::npos ? at : unit);
    return number;
}

/// number * factor; nullopt semantics by ERANGE: the result must stay at or below 2^63-1.
Result<std::uint64_t> times(const Number& number, std::uint64_t factor) {
    std::uint64_t result = 0;
    const std::uint64_t part = number.fraction * factor / number.scale;
    if (__builtin_mul_overflow(number.whole, factor, &result) ||
        __builtin_add_overflow(result, part, &result) || result > kMost) {
        return fail(ERANGE, "it is too large");
    }
    return result;
}

std::string quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text.substr(0, 64)) out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    return out + (text.size() > 64 ? "...'" : "'");
}

constexpr std::string_view kSizeAllowed = "a size such as 4096, 64M, 1.5GiB (K, M, G, T: powers of 1024)";
constexpr std::string_view kDurationAllowed = "a duration such as 250ms, 10s, 1.5m, 2h, 1d, forever";

tl::unexpected<Error> refuse(std::string_view text, const Error& why, std::string_view allowed) {
    return fail(why.code,
                "found " + quoted(text) + ": " + why.message + "; allowed: " + std::string(allowed));
}

/// The power of 1024 that a letter stands for: 1 to 4, or 0 where it stands for none.
std::size_t power_of(char letter) {
    constexpr std::string_view letters = "KMGT";
    const std::size_t power = letters.find(letter >= 'a' ? static_cast<char>(letter - 'a' + 'A') : letter);
    return power == std::string_view::npos ? 0 : power + 1;
}

/// 1, 2^10, 2^20, ... or 0 for what is no unit.
std::uint64_t size_factor(std::string_view unit) {
    if (unit.empty() || unit == "B") return 1;
    if (power_of(unit[0]) == 0 || (unit.size() > 1 && unit.substr(1) != "iB" && unit.substr(1) != "i"))
        return 0;
    return std::uint64_t{1} << (10 * power_of(unit[0]));
}

/// How a size of kB, MB, GB or TB is written, where 1000 or 1024 may be meant.
std::string both_ways(const std::string& digits, std::string_view unit) {
    const char letter = "KMGT"[power_of(unit[0]) - 1];
    return "write " + digits + letter + " for powers of 1024; " + quoted(unit) +
           " may also mean powers of 1000, and those are written as bytes";
}

struct Period {
    std::string_view unit;
    std::uint64_t milliseconds;
};
constexpr std::array<Period, 5> kPeriods = {
    {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}}};

/// "10min" as systemd and people write it: the short name of a unit, or the unit itself.
std::string_view short_unit(std::string_view unit) {
    constexpr std::array<std::array<std::string_view, 5>, 5> names = {{{"d", "day", "days"},
                                                                       {"h", "hr", "hour", "hours"},
                                                                       {"m", "min", "minute", "minutes"},
                                                                       {"s", "sec", "second", "seconds"},
                                                                       {"ms", "msec"}}};
    for (const auto& same : names) {
        for (const auto& name : same) {
            if (!name.empty() && name == unit) return same[0];
        }
    }
    return unit;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
    const auto number = split(text);
    if (!number) return refuse(text, number.error(), kSizeAllowed);
    const std::string_view unit = number->unit;
    const std::uint64_t factor = size_factor(unit);
    if (factor == 0) {
        const bool both = unit.size() == 2 && unit[1] == 'B' && power_of(unit[0]) != 0;
        const std::string digits(text.substr(0, text.find_first_not_of("0123456789.")));
        const std::string why = both ? both_ways(digits, unit) : quoted(unit) + " is no unit of size";
        return refuse(text, Error{EINVAL, why}, kSizeAllowed);
    }
    if (factor == 1 && number->scale != 1)
        return refuse(text, Error{EINVAL, "bytes have no decimals"}, kSizeAllowed);
    const auto bytes = times(*number, factor);
    if (!bytes) return refuse(text, bytes.error(), kSizeAllowed);
    if (*bytes == 0 && number->fraction != 0)
        return refuse(text, Error{EINVAL, "it is less than a byte"}, kSizeAllowed);
    return *bytes;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
    if (text == "forever") return kForever;
    if (text == "0") return std::chrono::milliseconds{0};
    const auto number = split(text);
    if (!number) return refuse(text, number.error(), kDurationAllowed);
    if (number->unit.empty()) {
        const std::string digits(text.substr(0, 20));
        return refuse(
            text,
            Error{EINVAL, "the unit is missing: write " + digits + "s, " + digits + "m or " + digits + "h"},
            kDurationAllowed);
    }
    const std::string_view unit = short_unit(number->unit);
    for (const auto& period : kPeriods) {
        if (period.unit != unit) continue;
        if (number->fraction * period.milliseconds % number->scale != 0) {
            return refuse(text, Error{EINVAL, "it is finer than 1ms"}, kDurationAllowed);
        }
        const auto count = times(*number, period.milliseconds);
        if (!count || *count == kMost)
            return refuse(text, Error{ERANGE, "it is too large"}, kDurationAllowed);
        return std::chrono::milliseconds{static_cast<std::int64_t>(*count)};
    }
    return refuse(text, Error{EINVAL, quoted(number->unit) + " is no unit of time"}, kDurationAllowed);
}

Result<Share> parse_share(std::string_view text) {
    Share share;
    const char* const end = text.data() + text.size();
    const auto [slash, wrong] = std::from_chars(text.data(), end, share.index);
    if (wrong == std::errc() && slash != end && *slash == '/') {
        const auto [last, also_wrong] = std::from_chars(slash + 1, end, share.count);
        if (also_wrong == std::errc() && last == end && share.index < share.count) return share;
    }
    return fail(EINVAL, "found '" + std::string(text.substr(0, 40)) +
                            "'; allowed: I/N, the I-th of N shares, I from 0 to N - 1");
}

std::optional<std::uint64_t> parse_times(std::string_view text) {
    constexpr std::uint64_t kMostTimes = 1'000'000;
    std::uint64_t times = 0;
    const char* const end = text.data() + text.size();
    const auto [last, wrong] = std::from_chars(text.data(), end, times);
    if (wrong != std::errc() || last != end || times == 0 || times > kMostTimes) return std::nullopt;
    return times;
}

std::string format_size(std::uint64_t bytes) {
    if (bytes < 1024) return std::to_string(bytes) + " B";
    constexpr std::string_view letters = "KMGTPE";
    std::size_t power = 0;
    while (power + 1 < letters.size() && (bytes >> (10 * (power + 2))) != 0) ++power;
    const std::uint64_t unit = std::uint64_t{1} << (10 * (power + 1));
    // Rounded to the nearest tenth, halves up; the division comes first so that nothing overflows.
    std::uint64_t whole = bytes / unit;
    std::uint64_t tenths = ((bytes % unit) / (unit / 1024) * 10 + 512) / 1024;
    if (tenths == 10) {
        tenths = 0;
        ++whole;
    }
    std::string out = std::to_string(whole);
    if (tenths != 0) out += "." + std::to_string(tenths);
    return out + " " + letters[power] + "iB";
}

std::string format_size_exact(std::uint64_t bytes) {
    constexpr std::string_view letters = "KMGT";
    std::size_t power = 0;
    while (bytes != 0 && power < letters.size() && bytes % 1024 == 0) {
        bytes /= 1024;
        ++power;
    }
    return std::to_string(bytes) + (power == 0 ? std::string() : std::string(1, letters[power - 1]));
}

std::string format_duration(std::chrono::milliseconds duration) {
    if (duration == kForever) return "forever";
    const auto count = static_cast<std::uint64_t>(duration.count() < 0 ? 0 : duration.count());
    // 90 s and 60 s read better than 1.5 min: a larger unit only from two of it on.
    for (const auto& period : kPeriods) {
        const bool small = period.milliseconds == 1000 && count == 0;
        const bool enough = count >= 2 * period.milliseconds || period.milliseconds <= 1000;
        if ((count % period.milliseconds == 0 && enough) || small) {
            return std::to_string(count / period.milliseconds) + std::string(period.unit);
        }
    }
    return std::to_string(count) + "ms";
}

}  // namespace tierfs
