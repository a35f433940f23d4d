#include "backends/pack/manifest.hpp"

#include <array>
#include <charconv>
#include <optional>

#include "backends/pack/format.hpp"
#include "config/base/json_text.hpp"

namespace tierfs::pack {

namespace {

constexpr const char* kFormat = "tierfs_pack";
constexpr std::string_view kIndexPrefix = "index-";

std::optional<ContentId> parse_id(std::string_view text) {
    if (text.size() != 32) return std::nullopt;
    for (const char c : text)
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return std::nullopt;
    ContentId id;
    std::from_chars(text.data(), text.data() + 16, id.high, 16);
    std::from_chars(text.data() + 16, text.data() + 32, id.low, 16);
    return id;
}

struct Count {
    const char* name;
    std::uint64_t Manifest::*member;
};
constexpr std::array kCounts{Count{"index_bytes", &Manifest::index_bytes},
                             Count{"files", &Manifest::files},
                             Count{"directories", &Manifest::directories},
                             Count{"symlinks", &Manifest::symlinks},
                             Count{"bytes", &Manifest::bytes},
                             Count{"packed_files", &Manifest::packed_files},
                             Count{"packed_bytes", &Manifest::packed_bytes},
                             Count{"extents", &Manifest::extents},
                             Count{"extent_bytes", &Manifest::extent_bytes},
                             Count{"max_object", &Manifest::max_object}};

}  // namespace

bool is_index_name(std::string_view name) {
    return name.starts_with(kIndexPrefix) && parse_id(name.substr(kIndexPrefix.size())).has_value();
}

std::string Manifest::index_path() const {
    return std::string(kIndexPrefix) + to_string(index);
}

Result<std::string> encode_manifest(const Manifest& manifest) {
    OrderedJson json;
    json[kFormat] = kVersion;
    put_text(json, "source", manifest.source);
    json["index"] = to_string(manifest.index);
    for (const auto& count : kCounts) json[count.name] = manifest.*count.member;
    if (manifest.codec.codec != Codec::none) json["codec"] = to_string(manifest.codec);
    std::string text = json.dump(2);
    if (text.size() >= kManifestBytes)
        return fail(ENAMETOOLONG, "the name of the source is too long for the manifest of a pack");
    text.resize(kManifestBytes - 1, ' ');
    return text + '\n';
}

Result<Manifest> parse_manifest(std::string_view text) {
    if (text.size() != kManifestBytes) return fail(EIO, "the manifest has not the length of one");
    const OrderedJson json = OrderedJson::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains(kFormat))
        return fail(EIO, "there is no manifest of a pack in it");
    Fields fields(json);
    const auto version = fields.number(kFormat);
    if (fields.good() && version != kVersion)
        return fail(EPROTONOSUPPORT, "the pack is of version " + std::to_string(version) +
                                         ", this tierfs knows version " + std::to_string(kVersion));
    Manifest manifest;
    manifest.source = fields.text("source");
    const auto index = parse_id(fields.text("index"));
    for (const auto& count : kCounts) manifest.*count.member = fields.number(count.name);
    const auto codec = fields.has("codec") ? parse_packing_codec(fields.text("codec")) : PackingCodec{};
    if (!fields.good()) return fail(EIO, "the manifest is damaged: " + fields.problem());
    if (codec) manifest.codec = *codec;  // else of a later version, and only an update would ask for it
    if (!index) return fail(EIO, "the manifest is damaged: member 'index' is no digest");
    manifest.index = *index;
    return manifest;
}

}  // namespace tierfs::pack
