// floor: backends
// The index of a pack, which comes from a bucket or a shared folder. Input: the bytes of a block; or, when
// they begin as an index does, a whole file, as it is.
#include "backends/pack/block.hpp"
#include "backends/pack/index.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace tierfs;

void check(const pack::Entry& entry) {
    fuzz::require(pack::is_clean_directory(entry.directory), "directories are clean");
    fuzz::require(entry.is_root() || pack::is_clean_name(entry.name), "names are clean");
    if (!entry.place) return;
    fuzz::require(entry.attributes.kind == ObjectKind::file, "files alone have places");
    fuzz::require(entry.place->stored <= kMaxPackedObject && entry.attributes.size <= kMaxPackedObject,
                  "what is packed is small");
    fuzz::require(entry.place->sums.size() == unit_count(entry.place->stored, kExtentUnit),
                  "all of it has sums");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input = fuzz::text_of(data, size);
    constexpr std::size_t kExtents = 3;
    if (const auto entries = pack::decode_block(input, kExtents)) {
        for (const auto& entry : *entries) {
            check(entry);
            fuzz::require(!entry.place || entry.place->extent < kExtents, "in an extent that there is");
        }
        const auto again = pack::decode_block(pack::encode_block(*entries), kExtents);
        fuzz::require(again && again->size() == entries->size(), "what is read is written and read again");
        for (std::size_t i = 0; i < entries->size(); ++i) {
            const auto &one = (*entries)[i], &other = (*again)[i];
            fuzz::require(pack::key_of(one) == pack::key_of(other) && one.place == other.place &&
                              one.link == other.link && one.attributes.version == other.attributes.version &&
                              one.attributes.size == other.attributes.size &&
                              one.attributes.mtime_ns == other.attributes.mtime_ns &&
                              one.attributes.ctime_ns == other.attributes.ctime_ns,
                          "and is the same");
        }
    }
    if (!input.starts_with(pack::kIndexMagic)) return 0;
    const fuzz::MemoryFile file(input);
    const auto index = pack::PackIndex::open(file.path());
    if (!index) return 0;
    static_cast<void>((*index)->for_each([](const pack::Entry& entry) {
        check(entry);
        return true;
    }));
    static_cast<void>((*index)->find("a/b"));
    return 0;
}
