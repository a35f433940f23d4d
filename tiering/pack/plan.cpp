#include "tiering/pack/plan.hpp"

#include <algorithm>

#include "tiering/pack/numbers.hpp"

namespace tierfs::pack {

namespace {

/// Of the XXH3-64 of a path; where they are zero, an extent may end.
constexpr std::uint64_t kBorderBits = 0x3F;

/// What is in an extent names it, and the rules by which it was made.
ExtentUuid uuid_of(const std::string& contents) {
    const auto hash = hash128(contents);
    return {hash.high, hash.low};
}

}  // namespace

bool is_packed(const Entry& entry, std::uint64_t max_object) {
    const auto& attributes = entry.attributes;
    const auto most = std::min<std::uint64_t>(max_object, kMaxPackedObject);
    return attributes.kind == ObjectKind::file && !attributes.archived && attributes.size > 0 &&
           attributes.size <= most;
}

std::vector<PlannedExtent> plan_extents(const std::vector<Entry>& entries, std::string_view source,
                                        std::uint64_t max_object) {
    std::vector<PlannedExtent> extents;
    PlannedExtent extent;
    std::string contents;
    std::uint64_t end = 0, tables = 0;
    const auto close = [&] {
        if (extent.files.empty()) return;
        extent.uuid = uuid_of(contents);
        extents.push_back(std::move(extent));
        extent = {};
        contents.clear();
        end = tables = 0;
    };
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!is_packed(entries[i], max_object)) continue;
        const auto path = entries[i].path();
        const auto size = entries[i].attributes.size;
        const auto table = kEntryHeaderBytes + 4 * unit_count(size, kExtentUnit);
        const bool is_border = end + tables >= kExtentLeast && (hash64(path) & kBorderBits) == 0;
        if (is_border || place_after(end, size) + size + tables + table > kExtentTarget) close();
        end = place_after(end, size) + size;
        tables += table;
        const auto id = content_id(source, path, entries[i].attributes.version);
        put_fixed(contents, id.high);
        put_fixed(contents, id.low);
        put_fixed(contents, size);
        extent.files.push_back(i);
        extent.bytes += size;
    }
    close();
    return extents;
}

}  // namespace tierfs::pack
