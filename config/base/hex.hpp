// Bytes and numbers as hexadecimal digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tierfs {

/// The value of a digit of either case; -1: it is none.
constexpr int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// Two lower-case digits a byte.
std::string to_hex(std::span<const std::byte> bytes);
std::string to_hex(std::string_view bytes);

/// Lower-case digits, `digits` of them at least, 16 at most.
std::string to_hex(std::uint64_t value, int digits);

/// The bytes that pairs of lower-case digits stand for; empty when the text is anything else.
std::vector<std::byte> from_hex(std::string_view text);

}  // namespace tierfs
