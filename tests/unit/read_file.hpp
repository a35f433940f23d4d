// A whole file as text. In one call: an iterator of a stream costs a microsecond a byte in a build with
// sanitizers.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace tierfs {

/// Empty where there is none.
inline std::string read_file(const std::filesystem::path& path) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    std::string text(error ? 0 : size, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    return text;
}

}  // namespace tierfs
