#include "fs/control/mountinfo.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

constexpr int kMostLinks = 40;  // as the kernel

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
    if (!parse_number(words[0], entry.id) || !parse_number(words[1], entry.parent) ||
        colon == std::string_view::npos || !parse_number(words[2].substr(0, colon), entry.major) ||
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

/// The number of an option: of "user_id=" in "rw,user_id=0".
std::optional<unsigned> number_of(std::string_view name, std::string_view options) {
    while (!options.empty()) {
        const auto comma = options.find(',');
        const auto option = options.substr(0, comma);
        if (unsigned number = 0; option.starts_with(name) && parse_number(option.substr(name.size()), number))
            return number;
        options = comma == std::string_view::npos ? std::string_view{} : options.substr(comma + 1);
    }
    return std::nullopt;
}

}  // namespace

std::optional<uid_t> MountEntry::owner() const {
    return number_of("user_id=", super_options);
}

std::optional<gid_t> MountEntry::group() const {
    return number_of("group_id=", super_options);
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

std::vector<MountEntry> mounts_on(const std::vector<MountEntry>& mounts, std::string_view mountpoint) {
    std::vector<MountEntry> here;
    for (const auto& mount : mounts) {
        if (mount.mountpoint == mountpoint) here.push_back(mount);
    }
    std::vector<MountEntry> stack;  // from the topmost down
    const auto is_bare = [&here](const MountEntry& mount) {
        return std::none_of(here.begin(), here.end(), [&mount](const MountEntry& other) {
            return other.parent == mount.id && other.id != mount.id;
        });
    };
    auto next = std::find_if(here.rbegin(), here.rend(), is_bare);
    if (next == here.rend()) next = here.rbegin();  // each below another: no such file comes from a kernel
    while (next != here.rend() && stack.size() < here.size()) {
        stack.push_back(*next);
        next = std::find_if(here.rbegin(), here.rend(),
                            [&stack](const MountEntry& mount) { return mount.id == stack.back().parent; });
    }
    std::reverse(stack.begin(), stack.end());
    return stack;
}

std::optional<MountEntry> find_mount(const std::vector<MountEntry>& mounts, std::string_view mountpoint) {
    auto stack = mounts_on(mounts, mountpoint);
    return stack.empty() ? std::nullopt : std::optional(std::move(stack.back()));
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

Result<std::string> follow_mountpoint(const std::string& path) {
    auto place = resolve_mountpoint(path);
    for (int links = 0; place; ++links) {
        std::array<char, PATH_MAX> target{};
        const auto size = ::readlink(place->c_str(), target.data(), target.size());
        if (size < 0) break;  // no link
        if (links == kMostLinks) return fail(system_error(ELOOP, path));
        const std::string_view to(target.data(), static_cast<std::size_t>(size));
        place = resolve_mountpoint((std::filesystem::path(*place).parent_path() / to).string());
    }
    return place;
}

}  // namespace tierfs
