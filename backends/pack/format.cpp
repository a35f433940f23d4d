#include "backends/pack/format.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tierfs::pack {

std::string key_of(std::string_view directory, std::string_view name) {
    std::string key;
    key.reserve(directory.size() + 1 + name.size());
    key.append(directory).push_back('\0');
    return key.append(name);
}

std::string key_of_path(std::string_view path) {
    if (path.empty()) return {};
    const auto slash = path.rfind('/');
    if (slash == std::string_view::npos) return key_of("", path);
    return key_of(path.substr(0, slash), path.substr(slash + 1));
}

bool is_clean_name(std::string_view name) {
    return !name.empty() && name.size() <= kLongestName && name != "." && name != ".." &&
           name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

bool is_clean_directory(std::string_view path) {
    if (path.size() > kLongestDirectory) return false;
    for (std::size_t begin = 0; !path.empty() && begin <= path.size();) {
        const auto end = std::min(path.find('/', begin), path.size());
        if (!is_clean_name(path.substr(begin, end - begin))) return false;
        begin = end + 1;
    }
    return true;
}

std::uint64_t hash64(std::string_view bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

ContentId hash128(std::string_view bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    return {hash.high64, hash.low64};
}

}  // namespace tierfs::pack
