#include "backends/pack/fetch_index.hpp"

#include <fcntl.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "backends/pack/reading.hpp"
#include "config/base/delivery.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/json_text.hpp"

namespace tierfs::pack {

namespace {

constexpr std::size_t kPart = 4 << 20, kParts = 8;

/// Copies a file of so many bytes into `fd`; their digest.
Result<ContentId> copy_file(Origin& dest, const std::string& path, std::uint64_t bytes, int fd,
                            const std::string& shown) {
    if (auto may = may_wait_for("a read of a pack"); !may) return fail(std::move(may.error()));
    std::vector<std::byte> buffer(std::min<std::uint64_t>(kPart * kParts, bytes));
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    for (std::uint64_t at = 0; at < bytes;) {
        const auto round = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), bytes - at));
        Reads reads(dest, Priority::demand);
        for (std::size_t from = 0; from < round.size(); from += kPart)
            reads.start(path, {}, at + from, round.subspan(from, std::min(kPart, round.size() - from)));
        if (auto read = reads.wait(); !read) return fail(read.error());
        XXH3_128bits_update(&state, round.data(), round.size());
        const std::string_view text(reinterpret_cast<const char*>(round.data()), round.size());
        if (auto written = write_all(fd, text); !written) return fail(written.error().within(shown));
        at += round.size();
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return ContentId{hash.high64, hash.low64};
}

/// Reads by `fetch` what it has written into a file without a name.
template <typename Fetch>
Result<std::unique_ptr<PackIndex>> by_way_of_a_file(const Fetch& fetch) {
    const auto folder = std::filesystem::temp_directory_path().string();
    const FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file) return fail(system_error(errno, folder + ": a file without a name"));
    if (Result<void> fetched = fetch(file.get(), folder); !fetched) return fail(fetched.error());
    return PackIndex::open("/proc/self/fd/" + std::to_string(file.get()));
}

}  // namespace

Result<void> fetch_index(Origin& dest, const Manifest& manifest, int fd, const std::string& shown) {
    const auto path = manifest.index_path();
    const auto digest = copy_file(dest, path, manifest.index_bytes, fd, shown);
    if (!digest) return fail(digest.error());
    if (*digest == manifest.index) return {};
    return fail(EIO, dest.identity() + "/" + path + ": the index of the pack is damaged: its digest");
}

Result<std::unique_ptr<PackIndex>> read_index(Origin& dest, const Manifest& manifest) {
    return by_way_of_a_file(
        [&](int fd, const std::string& shown) { return fetch_index(dest, manifest, fd, shown); });
}

Result<std::unique_ptr<PackIndex>> read_index(Origin& dest, const std::string& path, std::uint64_t bytes) {
    return by_way_of_a_file([&](int fd, const std::string& shown) {
        return copy_file(dest, path, bytes, fd, shown).map([](const ContentId&) {});
    });
}

Result<Manifest> read_manifest(Origin& dest) {
    std::string text(kManifestBytes, '\0');
    if (auto read = read_now(dest, kManifest, 0, std::as_writable_bytes(std::span(text))); !read)
        return fail(read.error());
    auto manifest = parse_manifest(text);
    if (!manifest) return fail(manifest.error().within(dest.identity() + "/" + kManifest));
    return manifest;
}

}  // namespace tierfs::pack
