// floor: config
// Sizes and durations. Input: the text; its first eight bytes also serve as a number.
#include <cstring>

#include "config/base/units.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const auto text = fuzz::text_of(data, size);
    if (const auto bytes = parse_size(text)) {
        fuzz::require(*bytes <= static_cast<std::uint64_t>(INT64_MAX), "sizes fit off_t");
        fuzz::require(parse_size(format_size_exact(*bytes)) == *bytes, "a size prints and parses back");
    } else {
        fuzz::require(bytes.error().message.size() < 1024, "a refusal is short, whatever was found");
    }
    if (const auto time = parse_duration(text)) {
        fuzz::require(time->count() >= 0, "durations are not negative");
        fuzz::require(parse_duration(format_duration(*time)) == *time, "a duration prints and parses back");
    }
    std::uint64_t number = 0;
    if (size > 0) std::memcpy(&number, data, std::min(size, sizeof number));
    fuzz::require(format_size(number).size() < 16, "sizes for people are short");
    number >>= 1U;
    fuzz::require(parse_size(format_size_exact(number)) == number, "every size prints and parses back");
    const std::chrono::milliseconds time(static_cast<std::int64_t>(number));
    fuzz::require(parse_duration(format_duration(time)) == time, "every duration prints and parses back");
    return 0;
}
