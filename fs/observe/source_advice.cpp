#include "fs/observe/source_advice.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "config/settings.hpp"

namespace tierfs {
namespace {

constexpr std::uint64_t kWholeRead = 1 << 20, kFewConnections = 4, kShortCaching = 60;

/// The value of `name` in "a,b=c": empty for a flag, nothing when it is not there.
std::optional<std::string_view> option(std::string_view options, std::string_view name) {
    while (!options.empty()) {
        const auto end = std::min(options.find(','), options.size());
        const auto word = options.substr(0, end);
        options.remove_prefix(std::min(end + 1, options.size()));
        if (word == name) return std::string_view();
        if (word.starts_with(name) && word.substr(name.size()).starts_with('='))
            return word.substr(name.size() + 1);
    }
    return std::nullopt;
}

std::optional<std::uint64_t> number(std::string_view options, std::string_view name) {
    const auto text = option(options, name);
    std::uint64_t value = 0;
    if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc())
        return {};
    return value;
}

bool is_nfs(const std::string& type) {
    return type == "nfs" || type == "nfs4";
}

std::vector<std::string> advise_nfs(const MountEntry& mount, bool writable) {
    std::vector<std::string> advice;
    const std::string_view options = mount.super_options;
    if (const auto size = number(options, "rsize"); size && *size < kWholeRead)
        advice.push_back("rsize=1048576 instead of " + std::to_string(*size) +
                         ": fewer requests for a large file");
    if (const auto size = number(options, "wsize"); writable && size && *size < kWholeRead)
        advice.push_back("wsize=1048576 instead of " + std::to_string(*size) +
                         ": fewer requests for a large file");
    if (number(options, "nconnect").value_or(1) < kFewConnections)
        advice.emplace_back("nconnect=8: one connection seldom fills a fast network");
    if (!option(mount.options, "noatime"))
        advice.emplace_back("noatime: reading changes nothing on the server");
    if (option(options, "noac")) {
        advice.emplace_back(
            "without noac: every look at a file asks the server; metadata.ttl bounds what is stale");
    } else if (number(options, "acregmax").value_or(kShortCaching) <= kShortCaching) {
        advice.emplace_back(
            "actimeo=600 for data that do not change: attributes are asked for every minute else");
    }
    if (const auto lookups = option(options, "lookupcache"); lookups && *lookups != "all")
        advice.emplace_back("lookupcache=all: names are asked for again and again else");
    return advice;
}

}  // namespace

bool SourceFileSystem::is_shared() const {
    return is_nfs(type) || type == "lustre" || type == "beegfs" || type == "gpfs" || type == "ceph";
}

SourceFileSystem source_file_system(const std::vector<MountEntry>& mounts, const std::string& directory,
                                    bool writable) {
    const MountEntry* nearest = nullptr;
    for (const auto& mount : mounts) {
        if (!is_path_within(directory, mount.mountpoint)) continue;
        // Of several on one place the last covers the others.
        if (nearest == nullptr || mount.mountpoint.size() >= nearest->mountpoint.size()) nearest = &mount;
    }
    if (nearest == nullptr) return {};
    SourceFileSystem found{nearest->type, nearest->mountpoint, {}};
    if (is_nfs(found.type)) found.advice = advise_nfs(*nearest, writable);
    return found;
}

}  // namespace tierfs
