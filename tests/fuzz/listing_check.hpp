// The directory that keys must make: written once more, from the manual's words, and compared.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "backends/s3/client/keys.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace tierfs::fuzz {

inline bool is_component(std::string_view name) {
    return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
           name.find('/') == name.npos && name.find('\0') == name.npos;
}

struct Seen {
    bool directory = false;
    std::uint64_t files = 0;
};

/// Every key is visible below its directory, or counted as hidden; nothing else is visible.
inline void check_page(const s3::Listing& listing, const std::string& prefix) {
    std::map<std::string, Seen> names;
    std::uint64_t hidden = 0;
    const auto name_of = [&](std::string_view key) -> std::string {
        if (!key.starts_with(prefix) || key.size() == prefix.size()) return {};
        const auto rest = key.substr(prefix.size());
        const auto name = rest.substr(0, rest.find('/'));
        return is_component(name) ? std::string(name) : std::string();
    };
    for (const auto& key : listing.prefixes) {
        const auto name = name_of(key);
        if (name.empty()) {
            ++hidden;
        } else {
            names[name].directory = true;
        }
    }
    for (const auto& object : listing.objects) {
        const bool own_marker = object.key == prefix;
        const auto name = own_marker ? std::string() : name_of(object.key);
        const bool marker = own_marker || object.key == prefix + name + "/";
        if (name.empty()) {
            if (!own_marker || object.size > 0) ++hidden;
            continue;
        }
        if (marker && object.size > 0) ++hidden;
        if (object.key == prefix + name) {
            ++names[name].files;
        } else {
            names[name].directory = true;
        }
    }
    const auto page = s3::map_listing(listing, prefix, {});
    require(page.entries.size() == names.size(), "each name is visible, once");
    auto expected = names.begin();
    for (const auto& entry : page.entries) {
        require(is_component(entry.name), "a name is one component of a path");
        require(entry.name == expected->first, "names are sorted and those of the keys");
        const bool directory = entry.attributes.kind == ObjectKind::directory;
        require(directory == expected->second.directory, "a directory wins over a file, and only then");
        hidden += expected->second.files - (directory ? 0 : 1);
        require(directory || !entry.attributes.version.empty(), "a file has a version");
        ++expected;
    }
    std::uint64_t counted = 0;
    for (const auto& [reason, count] : page.hidden) counted += count;
    require(counted == hidden, "every key that is not visible is counted");
    require(page.next == listing.next_token, "the page goes on where the listing does");
}

}  // namespace tierfs::fuzz
