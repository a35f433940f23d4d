#include "bench/iobench/run/place.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

namespace tierfs::iobench {

namespace {

namespace fs = std::filesystem;

bool is_octal(char c) {
    return c >= '0' && c <= '7';
}

/// The kernel writes space, tab, newline and backslash as \ooo.
std::string unescaped(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
            is_octal(text[i + 3])) {
            out +=
                static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
    return parts;
}

std::string joined_options(const std::string& mount, const std::string& file_system) {
    std::string all = mount;
    const auto seen = split(mount, ',');
    for (const auto& option : split(file_system, ','))
        if (std::find(seen.begin(), seen.end(), option) == seen.end()) all += "," + option;
    return all;
}

std::optional<MountInfo> parse_line(const std::string& line) {
    // ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [MORE…] - TYPE SOURCE SUPER_OPTIONS
    const auto words = split(line, ' ');
    const auto dash =
        std::find(words.begin() + std::min<std::ptrdiff_t>(6, std::ssize(words)), words.end(), "-");
    if (words.end() - dash < 3) return std::nullopt;
    return MountInfo{.device = words[2],
                     .point = unescaped(words[4]),
                     .type = unescaped(dash[1]),
                     .source = unescaped(dash[2]),
                     .options = joined_options(words[5], words.end() - dash > 3 ? dash[3] : "")};
}

bool is_below(const std::string& path, const std::string& directory) {
    if (directory == "/") return true;
    return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

std::string content_of(const fs::path& path) {
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    text.erase(text.find_last_not_of(" \n") + 1);
    return text;
}

/// "8:1" of the block device; that of the source where the file system has none (btrfs).
std::string block_number(const MountInfo& mount) {
    struct stat attributes {};
    if (!mount.device.starts_with("0:")) return mount.device;
    if (!mount.source.starts_with("/") || ::stat(mount.source.c_str(), &attributes) != 0 ||
        !S_ISBLK(attributes.st_mode))
        return "";
    return std::to_string(major(attributes.st_rdev)) + ":" + std::to_string(minor(attributes.st_rdev));
}

}  // namespace

std::vector<MountInfo> parse_mountinfo(std::string_view text) {
    std::vector<MountInfo> mounts;
    for (const auto& line : split(std::string(text), '\n'))
        if (auto mount = parse_line(line)) mounts.push_back(std::move(*mount));
    return mounts;
}

const MountInfo* mount_of(const std::vector<MountInfo>& mounts, const std::string& path) {
    const MountInfo* best = nullptr;
    for (const auto& mount : mounts)
        if (is_below(path, mount.point) && (best == nullptr || mount.point.size() >= best->point.size()))
            best = &mount;
    return best;
}

std::optional<ResultDevice> device_of(const MountInfo& mount, const std::string& sys) {
    const std::string number = block_number(mount);
    std::error_code error;
    const fs::path folder = fs::canonical(fs::path(sys) / "dev/block" / number, error);
    if (number.empty() || error) return std::nullopt;
    const fs::path disk = fs::exists(folder / "partition", error) ? folder.parent_path() : folder;
    ResultDevice device{.name = folder.filename(), .model = {}, .peak_mb_per_s = {}};
    for (const auto* file : {"device/model", "loop/backing_file", "dm/name"})
        if (device.model.empty()) device.model = content_of(disk / file);
    return device;
}

Place describe(const std::string& name, const std::string& path) {
    Place place;
    place.target.name = name;
    place.target.path = path;
    const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
    const auto mounts = parse_mountinfo(content_of("/proc/self/mountinfo"));
    const MountInfo* mount = mount_of(mounts, real ? real.get() : path);
    if (mount == nullptr) return place;
    place.target.fs_type = mount->type;
    place.target.fs_source = mount->source;
    place.target.mount_point = mount->point;
    place.target.mount_options = mount->options;
    place.target.device = device_of(*mount);
    place.device_number = mount->device;
    return place;
}

}  // namespace tierfs::iobench
