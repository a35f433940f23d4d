#include "fs/observe/figures.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "config/base/units.hpp"

namespace tierfs {

std::string decimal(double number, int places, const char* unit) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.*f%s", places, number, unit);
    return text.data();
}

std::string size_text(double bytes) {
    return format_size(static_cast<std::uint64_t>(std::max(bytes, 0.0)));
}

std::string amount(double number) {
    if (number >= 999'500) return decimal(number / 1e6, 1, "M");
    if (number >= 9'999.5) return decimal(number / 1e3, 0, "k");
    return decimal(number, number >= 99.5 || number == 0 ? 0 : 1);
}

std::string latency_text(double us) {
    if (us <= 0) return "-";
    if (us < 999.5) return decimal(us, 0, " us");
    if (us < 9'995) return decimal(us / 1e3, 1, " ms");
    if (us < 999'500) return decimal(us / 1e3, 0, " ms");
    return decimal(us / 1e6, us < 99.5e6 ? 1 : 0, " s");
}

}  // namespace tierfs
