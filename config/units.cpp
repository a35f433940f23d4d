#include "config/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "config/settings.hpp"

namespace tierfs {

namespace {

struct Number {
    double value;
    std::string_view unit;
};

/// A non-negative decimal number and what follows it; digits only, so neither "nan" nor "1e9" nor a sign
/// passes.
std::optional<Number> split(std::string_view text) {
    const std::size_t end = text.find_first_not_of("0123456789.");
    const std::string_view digits = text.substr(0, end);
    if (digits.empty() || digits.front() == '.' || digits.back() == '.') return std::nullopt;
    Number number{0, end == std::string_view::npos ? std::string_view() : text.substr(end)};
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number.value);
    if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) return std::nullopt;
    return number;
}

std::optional<std::uint64_t> whole(std::string_view text) {
    std::uint64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
    return value;
}

tl::unexpected<Error> bad_size(std::string_view text, std::string_view why) {
    return fail(EINVAL,
                "'" + std::string(text) + "' is not a size: " + std::string(why) +
                    "; write bytes, or a number with K, M, G or T (powers of 1024), such as 64M or 1.5GiB");
}

std::optional<unsigned> size_shift(std::string_view unit) {
    if (unit.empty() || unit == "B") return 0U;
    constexpr std::string_view kLetters = "KMGT";
    const std::size_t letter = kLetters.find(unit.front() == 'k' ? 'K' : unit.front());
    if (letter == std::string_view::npos) return std::nullopt;
    const std::string_view rest = unit.substr(1);
    if (!rest.empty() && rest != "iB") return std::nullopt;
    return static_cast<unsigned>(10 * (letter + 1));
}

struct DurationUnit {
    std::string_view name;
    std::int64_t milliseconds;
};
constexpr std::array<DurationUnit, 5> kDurationUnits{
    {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const auto number = split(text);
    if (!number) return bad_size(text, "no number");
    const auto shift = size_shift(number->unit);
    if (!shift) {
        const bool decimal = number->unit.ends_with('B');
        return bad_size(text, decimal ? "units of 1000 are not used" : "unknown unit");
    }
    const std::string_view digits = text.substr(0, text.size() - number->unit.size());
    if (const auto integer = whole(digits)) {
        if (*integer > (kMax >> *shift))
            return fail(ERANGE, "'" + std::string(text) + "' is too large a size");
        return *integer << *shift;
    }
    const double bytes = std::ldexp(number->value, static_cast<int>(*shift));
    if (!(bytes < static_cast<double>(kMax)))
        return fail(ERANGE, "'" + std::string(text) + "' is too large a size");
    if (*shift == 0) return bad_size(text, "bytes are whole");
    return static_cast<std::uint64_t>(bytes);
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
    if (text == "forever") return kForever;
    const auto number = split(text);
    if (number) {
        if (number->unit.empty() && number->value == 0) return std::chrono::milliseconds(0);
        for (const auto& unit : kDurationUnits) {
            if (number->unit != unit.name) continue;
            const double value = number->value * static_cast<double>(unit.milliseconds);
            if (value > 1e15) return fail(ERANGE, "'" + std::string(text) + "' is too long; write forever");
            return std::chrono::milliseconds(static_cast<std::int64_t>(std::llround(value)));
        }
    }
    return fail(
        EINVAL,
        "'" + std::string(text) +
            "' is not a duration: write a number with ms, s, m, h or d, such as 10s or 5m, or forever");
}

std::string format_size(std::uint64_t bytes) {
    constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits.at(unit));
    return text.data();
}

std::string format_size_exact(std::uint64_t bytes) {
    constexpr std::string_view kLetters = "KMGT";
    std::size_t letter = 0;
    std::uint64_t value = bytes;
    while (value != 0 && value % 1024 == 0 && letter < kLetters.size()) {
        value /= 1024;
        ++letter;
    }
    return std::to_string(value) + (letter == 0 ? std::string() : std::string(1, kLetters[letter - 1]));
}

std::string format_duration(std::chrono::milliseconds duration) {
    if (duration == kForever) return "forever";
    const auto count = duration.count();
    if (count % 1000 != 0) return std::to_string(count) + "ms";
    return std::to_string(count / 1000) + "s";
}

}  // namespace tierfs
