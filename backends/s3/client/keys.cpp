#include "backends/s3/client/keys.hpp"

#include <algorithm>

#include "config/base/text.hpp"

namespace tierfs::s3 {
namespace {

constexpr std::size_t kLongestName = 255;
constexpr std::int64_t kNanoseconds = 1'000'000'000;
constexpr std::int64_t kLatestSecond = INT64_MAX / kNanoseconds;

/// Why a name cannot be a path's component; null if it can.
const char* refusal(std::string_view name, bool at_top) {
    if (name.empty()) return at_top ? hidden::kLeadingSlash : hidden::kEmptyComponent;
    if (name == "." || name == "..") return hidden::kDots;
    if (name.size() > kLongestName) return hidden::kTooLong;
    if (name.find('\0') != std::string_view::npos) return hidden::kNul;
    return nullptr;
}

class Mapper {
  public:
    Mapper(std::string_view prefix, const Ownership& ownership) : prefix_(prefix), ownership_(ownership) {}

    void take_prefix(std::string_view key) {
        if (const auto name = component(key)) add(*name, directory_attributes(ownership_));
    }

    void take_object(const ListedObject& object) {
        const std::string_view key = object.key;
        if (key == prefix_) {  // the directory's own marker
            if (object.size > 0) hide(hidden::kMarkerWithContent);
            return;
        }
        const auto name = component(key);
        if (!name) return;
        const auto rest = key.substr(prefix_.size() + name->size());
        if (rest.empty()) {
            add(*name, file_attributes(object, ownership_));
            return;
        }
        if (rest == "/" && object.size > 0) hide(hidden::kMarkerWithContent);
        add(*name, directory_attributes(ownership_));
    }

    ListPage finish() {
        auto& entries = page_.entries;
        std::stable_sort(entries.begin(), entries.end(),
                         [](const DirectoryEntry& a, const DirectoryEntry& b) {
                             if (a.name != b.name) return a.name < b.name;
                             return is_directory(a) && !is_directory(b);
                         });
        std::vector<DirectoryEntry> unique;
        unique.reserve(entries.size());
        for (auto& entry : entries) {
            if (unique.empty() || unique.back().name != entry.name) {
                unique.push_back(std::move(entry));
            } else if (!is_directory(entry)) {
                hide(hidden::kBesideDirectory);
            }
        }
        entries = std::move(unique);
        return std::move(page_);
    }

  private:
    static bool is_directory(const DirectoryEntry& entry) {
        return entry.attributes.kind == ObjectKind::directory;
    }

    /// The first component of `key` below the prefix; nothing, and counted, when it is no path.
    std::optional<std::string_view> component(std::string_view key) {
        if (!key.starts_with(prefix_) || key.size() == prefix_.size()) {
            hide(hidden::kOutside);
            return std::nullopt;
        }
        const auto rest = key.substr(prefix_.size());
        const auto name = rest.substr(0, rest.find('/'));
        if (const char* reason = refusal(name, prefix_.empty())) {
            hide(reason);
            return std::nullopt;
        }
        return name;
    }

    void add(std::string_view name, Attributes attributes) {
        page_.entries.push_back({std::string(name), std::move(attributes)});
    }

    void hide(const char* reason) { ++page_.hidden[reason]; }

    std::string_view prefix_;
    const Ownership& ownership_;
    ListPage page_;
};

}  // namespace

bool is_component(std::string_view name) {
    return refusal(name, false) == nullptr;
}

std::string make_version(std::string_view etag, std::int64_t mtime_s, std::uint64_t size) {
    if (etag.empty() || etag.size() > kLongestEtag || has_control(etag))
        return std::to_string(mtime_s) + "-" + std::to_string(size);
    if (etag.starts_with('"') || etag.starts_with("W/")) return std::string(etag);
    // Some servers leave the quotes out of listings; HEAD and If-Match have them.
    return '"' + std::string(etag) + '"';
}

bool is_strong_etag(std::string_view version) {
    return version.starts_with('"');
}

bool tells_version(std::string_view version) {
    return !version.empty() && !version.starts_with("0-");
}

bool is_archive_class(std::string_view storage_class) {
    return storage_class == "GLACIER" || storage_class == "DEEP_ARCHIVE";
}

Attributes file_attributes(const ListedObject& object, const Ownership& ownership) {
    Attributes attributes;
    attributes.kind = ObjectKind::file;
    attributes.size = object.size;
    attributes.mtime_ns = attributes.ctime_ns =
        std::clamp(object.mtime_s, -kLatestSecond, kLatestSecond) * kNanoseconds;
    attributes.mode = ownership.file_mode;
    attributes.uid = ownership.uid;
    attributes.gid = ownership.gid;
    attributes.archived = is_archive_class(object.storage_class) && !object.restored;
    attributes.version = make_version(object.etag, object.mtime_s, object.size);
    return attributes;
}

Attributes directory_attributes(const Ownership& ownership) {
    Attributes attributes;
    attributes.kind = ObjectKind::directory;
    attributes.mode = ownership.directory_mode;
    attributes.uid = ownership.uid;
    attributes.gid = ownership.gid;
    return attributes;
}

ListPage map_listing(const Listing& listing, std::string_view prefix, const Ownership& ownership) {
    Mapper mapper(prefix, ownership);
    for (const auto& key : listing.prefixes) mapper.take_prefix(key);
    for (const auto& object : listing.objects) mapper.take_object(object);
    auto page = mapper.finish();
    page.next = listing.next_token;
    return page;
}

}  // namespace tierfs::s3
