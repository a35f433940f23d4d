// Numbers for people, in few characters.
#pragma once

#include <cstdint>
#include <string>

namespace tierfs {

/// "0", "1.5", "123", "12k", "1.2M".
std::string amount(double number);
/// "120 us", "4.2 ms", "1.5 s"; "-" for 0.
std::string latency_text(double us);
/// "1.5 MiB"; below 0 is 0.
std::string size_text(double bytes);
/// With so many decimals, and what follows.
std::string decimal(double number, int places, const char* unit = "");

inline double of(std::uint64_t value) {
    return static_cast<double>(value);
}

}  // namespace tierfs
