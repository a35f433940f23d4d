// floor: tiering
// The file of pins. Input: the file; its last line is put in order.
#include <array>
#include <cstdio>
#include <span>
#include <string>

#include "config/base/crc32c.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tiering/policy/pins_text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const std::string raw(reinterpret_cast<const char*>(data), size);
    if (const auto parsed = parse_pins(raw); !parsed)
        fuzz::require(!parsed.error().message.empty(), "an error says what it is");
    const auto body = raw.substr(0, raw.rfind("\nend ") + 1);
    std::array<char, 9> sum{};
    std::snprintf(sum.data(), sum.size(), "%08x", crc32c(0, std::as_bytes(std::span(body))));
    const auto parsed = parse_pins(body + "end " + sum.data() + "\n");
    if (!parsed) return 0;
    fuzz::require(parsed->pins.size() <= kMostPins, "bounded");
    const auto again = parse_pins(format_pins(*parsed));
    fuzz::require(again && again->sequence == parsed->sequence && again->pins == parsed->pins,
                  "what is written reads back");
    return 0;
}
