#include "fs/gds/host_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace tierfs::gds {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestFile = 1U << 20U;

bool digit(char c) {
    return c >= '0' && c <= '9';
}

}  // namespace

HostFiles::HostFiles(const std::string& root) {
    if (root.empty()) return;
    std::error_code error;
    const auto real = fs::canonical(root, error);
    root_ = error ? root : real.string();
}

std::optional<std::string> HostFiles::text(const std::string& path) const {
    std::ifstream file(root_ + path, std::ios::binary);
    if (!file) return std::nullopt;
    std::string text;
    std::array<char, 4096> piece{};
    while (text.size() < kLongestFile && file) {
        file.read(piece.data(), piece.size());
        text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    }
    if (file.bad()) return std::nullopt;
    // A folder opens, too, and gives nothing: a file of /sys that is empty says as little.
    const auto end = text.find_last_not_of(" \t\n\r");
    if (end == std::string::npos) return std::nullopt;
    text.resize(end + 1);
    return text;
}

std::optional<std::int64_t> HostFiles::number(const std::string& path) const {
    const auto content = text(path);
    if (!content) return std::nullopt;
    std::int64_t value = 0;
    const auto* last = content->data() + content->size();
    const auto [end, error] = std::from_chars(content->data(), last, value);
    if (error != std::errc{} || end != last) return std::nullopt;
    return value;
}

bool HostFiles::mentions(const std::string& path, std::string_view words) const {
    std::ifstream file(root_ + path);
    for (std::string line; std::getline(file, line);) {
        if (line.find(words) != std::string::npos) return true;
    }
    return false;
}

std::vector<std::string> HostFiles::list(const std::string& path) const {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(root_ + path, error), end; !error && entry != end;
         entry.increment(error))
        names.push_back(entry->path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

bool HostFiles::exists(const std::string& path) const {
    std::error_code error;
    return fs::exists(root_ + path, error);
}

std::optional<std::string> HostFiles::canonical(const std::string& path) const {
    std::error_code error;
    const auto real = fs::canonical(root_ + path, error);
    if (error) return std::nullopt;
    const std::string text = real.string();
    if (!text.starts_with(root_ + "/")) return std::nullopt;
    return text.substr(root_.size());
}

std::string Version::text() const {
    std::string text;
    for (const unsigned part : parts) text += (text.empty() ? "" : ".") + std::to_string(part);
    return text;
}

std::optional<Version> version_in(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        if (!digit(text[at])) {
            ++at;
            continue;
        }
        Version version;
        while (at < text.size() && digit(text[at])) {
            unsigned part = 0;
            const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), part);
            at = static_cast<std::size_t>(end - text.data());
            if (error != std::errc{}) break;
            version.parts.push_back(part);
            if (at + 1 >= text.size() || text[at] != '.' || !digit(text[at + 1])) break;
            ++at;
        }
        if (version.parts.size() >= 2) return version;
    }
    return std::nullopt;
}

bool has_option(std::string_view options, std::string_view word) {
    while (!options.empty()) {
        const auto comma = options.find(',');
        if (options.substr(0, comma) == word) return true;
        options = comma == std::string_view::npos ? std::string_view{} : options.substr(comma + 1);
    }
    return false;
}

std::string size_text(std::uint64_t bytes) {
    constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    std::array<char, 32> text{};
    const bool whole = value == static_cast<double>(static_cast<std::uint64_t>(value));
    std::snprintf(text.data(), text.size(), whole ? "%.0f" : "%.1f", value);
    return std::string(text.data()) + " " + kUnits.at(unit);
}

}  // namespace tierfs::gds
