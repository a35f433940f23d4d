#include "config/base/hex.hpp"

#include <cstdio>

namespace tierfs {

std::string to_hex(std::span<const std::byte> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const std::byte byte : bytes) {
        text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
        text += kDigits[std::to_integer<unsigned>(byte) & 15U];
    }
    return text;
}

std::string to_hex(std::string_view bytes) {
    return to_hex(std::as_bytes(std::span(bytes)));
}

std::string to_hex(std::uint64_t value, int digits) {
    char text[17];
    std::snprintf(text, sizeof text, "%0*llx", digits, static_cast<unsigned long long>(value));
    return text;
}

std::vector<std::byte> from_hex(std::string_view text) {
    if (text.size() % 2 != 0) return {};
    std::vector<std::byte> bytes;
    bytes.reserve(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2) {
        const int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
        const auto is_upper = [](char c) { return c >= 'A' && c <= 'F'; };
        if (high < 0 || low < 0 || is_upper(text[i]) || is_upper(text[i + 1])) return {};
        bytes.push_back(static_cast<std::byte>(high * 16 + low));
    }
    return bytes;
}

}  // namespace tierfs
