// floor: backends
// The manifest of a pack. Input: its JSON, which is filled up with spaces.
#include "backends/pack/manifest.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    std::string text(fuzz::text_of(data, size));
    text.resize(pack::kManifestBytes, ' ');
    const auto manifest = pack::parse_manifest(text);
    if (!manifest) {
        fuzz::require(!manifest.error().message.empty(), "an error says what it is");
        return 0;
    }
    const auto again = pack::encode_manifest(*manifest);
    if (!again) return 0;
    const auto read = pack::parse_manifest(*again);
    fuzz::require(read && *read == *manifest, "what is read is written and read again");
    fuzz::require(pack::is_index_name(manifest->index_path()), "an index has its own kind of name");
    return 0;
}
