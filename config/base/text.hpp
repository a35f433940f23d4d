// Small helpers for text.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace tierfs {

/// A copy whose ASCII letters are small, in every locale.
inline std::string to_lower(std::string_view text) {
    std::string copy(text);
    std::transform(copy.begin(), copy.end(), copy.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return copy;
}

/// True of text with a control character of ASCII: it must not become a line of a protocol, nor of a terminal.
inline bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace tierfs
