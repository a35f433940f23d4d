// Entries as datasets have them, for the tests of packs.
#pragma once

#include <string>
#include <vector>

#include "backends/pack/format.hpp"

namespace tierfs::pack {

inline Entry directory_entry(const std::string& directory, const std::string& name) {
    Entry entry;
    entry.directory = directory;
    entry.name = name;
    entry.attributes.kind = ObjectKind::directory;
    entry.attributes.mode = 0755;
    entry.attributes.nlink = 2;
    entry.attributes.mtime_ns = 1'700'000'000'123'456'789;
    entry.attributes.ctime_ns = 1'700'000'001'000'000'000;
    return entry;
}

/// `digest`: an ETag; else the version of a directory's file.
inline Entry file_entry(const std::string& directory, unsigned number, bool digest) {
    Entry entry;
    entry.directory = directory;
    std::string digits = std::to_string(number);
    entry.name = "sample_" + std::string(8 - digits.size(), '0') + digits + ".jpeg";
    auto& a = entry.attributes;
    const auto noise = hash64(entry.name);
    a.size = 3000 + noise % 20000;
    a.mtime_ns = 1'700'000'000'000'000'000 + static_cast<std::int64_t>(noise % 3'600'000'000'000);
    a.ctime_ns = a.mtime_ns + static_cast<std::int64_t>(noise % 1'000'000);
    a.mode = 0644;
    if (digest) {
        a.mtime_ns -= a.mtime_ns % 1'000'000'000;
        a.ctime_ns = a.mtime_ns;
        a.version = '"' + to_string(hash128(entry.name)) + '"';
    } else {
        a.version = std::to_string(1'000'000 + number) + ':' + std::to_string(a.size) + ':' +
                    std::to_string(a.mtime_ns) + ':' + std::to_string(a.ctime_ns);
    }
    return entry;
}

/// Puts it behind what ends at `end` of the extent.
inline void pack_entry(Entry& entry, std::uint32_t extent, std::uint64_t& end) {
    Place place;
    place.extent = extent;
    place.stored = static_cast<std::uint32_t>(entry.attributes.size);
    place.offset = place_after(end, place.stored);
    for (std::uint64_t i = 0; i < unit_count(place.stored, kExtentUnit); ++i)
        place.sums.push_back(static_cast<std::uint32_t>(hash64(entry.name + std::to_string(i))));
    end = place.offset + place.stored;
    entry.place = std::move(place);
}

inline bool same(const Attributes& a, const Attributes& b) {
    return a.kind == b.kind && a.size == b.size && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns &&
           a.mode == b.mode && a.uid == b.uid && a.gid == b.gid && a.nlink == b.nlink &&
           a.archived == b.archived && a.version == b.version;
}

inline bool same(const Entry& a, const Entry& b) {
    return a.directory == b.directory && a.name == b.name && same(a.attributes, b.attributes) &&
           a.place == b.place && a.link == b.link;
}

}  // namespace tierfs::pack
