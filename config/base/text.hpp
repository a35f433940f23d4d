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

}  // namespace tierfs
