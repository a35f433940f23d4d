#include "backends/origin/object.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstdio>

namespace tierfs {

ContentId content_id(std::string_view source, std::string_view key, std::string_view version) {
    std::string text;
    text.reserve(source.size() + key.size() + version.size() + 48);
    for (const auto part : {source, key, version}) {
        text += std::to_string(part.size());
        text += ':';
        text += part;
    }
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    return ContentId{hash.high64, hash.low64};
}

std::string to_string(const ContentId& id) {
    std::array<char, 33> text{};
    std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(id.high),
                  static_cast<unsigned long long>(id.low));
    return std::string(text.data(), 32);
}

}  // namespace tierfs
