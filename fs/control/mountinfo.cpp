#include "fs/control/mountinfo.hpp"

#include <charconv>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "config/base/fault_point.hpp"

namespace tierfs {

namespace {

bool octal(char digit) {
    return digit >= '0' && digit <= '7';
}

std::string unescape(std::string_view text) {
    std::string plain;
    plain.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) &&
            octal(text[i + 3])) {
            const int value = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
            plain += static_cast<char>(value);
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    while (!line.empty()) {
        const auto space = line.find(' ');
        if (const auto word = line.substr(0, space); !word.empty()) words.push_back(word);
        line = space == std::string_view::npos ? std::string_view{} : line.substr(space + 1);
    }
    return words;
}

bool parse_number(std::string_view text, unsigned& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size();
}

// ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [TAGS...] - TYPE SOURCE SUPER-OPTIONS
std::optional<MountEntry> parse_line(std::string_view line) {
    const auto words = words_of(line);
    std::size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 2 >= words.size()) return std::nullopt;
    MountEntry entry;
    const auto colon = words[2].find(':');
    if (!parse_number(words[0], entry.id) || colon == std::string_view::npos ||
        !parse_number(words[2].substr(0, colon), entry.major) ||
        !parse_number(words[2].substr(colon + 1), entry.minor)) {
        return std::nullopt;
    }
    entry.mountpoint = unescape(words[4]);
    entry.type = unescape(words[dash + 1]);
    entry.source = unescape(words[dash + 2]);
    entry.options = unescape(words[5]);
    if (dash + 3 < words.size()) entry.super_options = unescape(words[dash + 3]);
    return entry;
}

}  // namespace

std::optional<uid_t> MountEntry::owner() const {
    constexpr std::string_view kName = "user_id=";
    std::string_view left = super_options;
    while (!left.empty()) {
        const auto comma = left.find(',');
        const auto option = left.substr(0, comma);
        if (unsigned number = 0;
            option.starts_with(kName) && parse_number(option.substr(kName.size()), number))
            return number;
        left = comma == std::string_view::npos ? std::string_view{} : left.substr(comma + 1);
    }
    return std::nullopt;
}

std::vector<MountEntry> parse_mountinfo(std::string_view text) {
    std::vector<MountEntry> mounts;
    while (!text.empty()) {
        const auto end = text.find('\n');
        if (auto entry = parse_line(text.substr(0, end))) mounts.push_back(std::move(*entry));
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    return mounts;
}

Result<std::vector<MountEntry>> read_mountinfo() {
    if (const int code = TIERFS_FAULT("mountinfo.read"); code != 0)
        return fail(system_error(code, "/proc/self/mountinfo"));
    std::ifstream file("/proc/self/mountinfo");
    if (!file) return fail(EIO, "/proc/self/mountinfo cannot be read: is /proc mounted?");
    std::ostringstream text;
    text << file.rdbuf();
    return parse_mountinfo(text.view());
}

std::optional<MountEntry> find_mount(const std::vector<MountEntry>& mounts, std::string_view mountpoint) {
    std::optional<MountEntry> found;
    for (const auto& mount : mounts) {
        if (mount.mountpoint == mountpoint) found = mount;
    }
    return found;
}

Result<std::string> resolve_mountpoint(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    auto absolute = fs::absolute(path, error).lexically_normal();
    if (error) return fail(error.value(), path + ": " + error.message());
    if (!absolute.has_filename() && absolute.has_relative_path()) absolute = absolute.parent_path();
    if (!absolute.has_relative_path()) return std::string("/");
    const std::unique_ptr<char, decltype(&std::free)> parent(
        ::realpath(absolute.parent_path().c_str(), nullptr), &std::free);
    if (!parent) return fail(system_error(errno, absolute.parent_path().string()));
    return (fs::path(parent.get()) / absolute.filename()).string();
}

}  // namespace tierfs
