#include "tiering/pack/fetch_index.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "tiering/pack/reading.hpp"
#include "tiering/stage/json_text.hpp"

namespace tierfs::pack {

namespace {

constexpr std::size_t kPart = 4 << 20, kParts = 8;

}  // namespace

Result<void> fetch_index(Origin& dest, const Manifest& manifest, int fd, const std::string& shown) {
    const auto path = manifest.index_path();
    std::vector<std::byte> buffer(std::min<std::uint64_t>(kPart * kParts, manifest.index_bytes));
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    for (std::uint64_t at = 0; at < manifest.index_bytes;) {
        const auto round =
            std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), manifest.index_bytes - at));
        Reads reads(dest, Priority::demand);
        for (std::size_t from = 0; from < round.size(); from += kPart)
            reads.start(path, {}, at + from, round.subspan(from, std::min(kPart, round.size() - from)));
        if (auto read = reads.wait(); !read) return read;
        XXH3_128bits_update(&state, round.data(), round.size());
        const std::string_view text(reinterpret_cast<const char*>(round.data()), round.size());
        if (auto written = stage::write_all(fd, text); !written) return fail(written.error().within(shown));
        at += round.size();
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(&state);
    if (ContentId{hash.high64, hash.low64} == manifest.index) return {};
    return fail(EIO, dest.identity() + "/" + path + ": the index of the pack is damaged: its digest");
}

}  // namespace tierfs::pack
