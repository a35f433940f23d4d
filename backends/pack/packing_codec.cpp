#include "backends/pack/packing_codec.hpp"

#include <charconv>

namespace tierfs::pack {

Result<PackingCodec> parse_packing_codec(std::string_view text) {
    const auto colon = text.find(':');
    const auto codec = parse_codec(text.substr(0, colon));
    const auto refused =
        fail(EINVAL, "'" + std::string(text) + "': allowed is none, lz4, zstd, or zstd:LEVEL, 1 to " +
                         std::to_string(PackingCodec::kMostLevel));
    if (!codec) return refused;
    PackingCodec result{*codec, *codec == Codec::zstd ? PackingCodec::kUsualLevel : 0};
    if (colon == std::string_view::npos) return result;
    const auto digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result.level);
    const bool is_number = error == std::errc() && end == digits.data() + digits.size();
    if (*codec != Codec::zstd || !is_number || result.level < 1 || result.level > PackingCodec::kMostLevel)
        return refused;
    return result;
}

std::string to_string(const PackingCodec& codec) {
    std::string text(name_of(codec.codec));
    if (codec.codec == Codec::zstd) text += ":" + std::to_string(codec.level);
    return text;
}

}  // namespace tierfs::pack
