#include "bench/iobench/suites/seqrand_content.hpp"

#include <algorithm>

#include "bench/iobench/data/dataset.hpp"
#include "bench/iobench/data/files.hpp"
#include "bench/iobench/data/random.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::uint64_t kPiece = 1 << 20;  // bytes; rounded down to units

}  // namespace

void Content::add(std::span<const std::byte> bytes) {
    for (std::uint64_t at = 0; at < bytes.size(); at += unit_) {
        const auto unit = bytes.subspan(at, std::min<std::uint64_t>(unit_, bytes.size() - at));
        hashes_.push_back(XXH3_64bits(unit.data(), unit.size()));
    }
}

Result<Content> Content::of(const ReadFile& file, const ManifestEntry& entry, std::uint64_t unit,
                            std::uint64_t gen_seed) {
    if (entry.size != file.size)
        return fail(EIO, file.path + ": has " + std::to_string(file.size) + " bytes, the manifest says " +
                             std::to_string(entry.size));
    std::vector<std::byte> piece(std::max<std::uint64_t>(1, kPiece / unit) * unit);
    const auto collect =
        [&](const std::function<Result<void>(std::uint64_t, std::span<std::byte>)>& make) -> Result<Content> {
        Content content(unit);
        Hasher hasher;
        for (std::uint64_t at = 0; at < file.size; at += piece.size()) {
            const auto part = std::span(piece).first(std::min<std::uint64_t>(piece.size(), file.size - at));
            if (auto made = make(at, part); !made) return fail(made.error());
            hasher.add(part);
            content.add(part);
        }
        if (hasher.hex() != entry.hash)
            return fail(EIO, file.path + ": its content is not what the manifest says");
        return content;
    };
    const std::uint64_t seed = large_file_seed(gen_seed, file.relative);
    auto made = collect([&](std::uint64_t at, std::span<std::byte> part) -> Result<void> {
        random_bytes(seed, at, part);
        return {};
    });
    if (made) return made;
    auto source = open_for_reading(file.path);
    if (!source) return fail(source.error());
    auto read = collect([&](std::uint64_t at, std::span<std::byte> part) -> Result<void> {
        const auto n = read_at(*source, part, at, file.path);
        if (!n) return fail(n.error());
        if (*n != part.size())
            return fail(EIO, file.path + ": ends before its size, at byte " + std::to_string(at + *n));
        return {};
    });
    if (read) read->was_read_ = true;
    return read;
}

Result<void> Content::check(const ReadFile& file, std::uint64_t offset,
                            std::span<const std::byte> bytes) const {
    for (std::uint64_t at = 0; at < bytes.size(); at += unit_) {
        const auto unit = bytes.subspan(at, std::min<std::uint64_t>(unit_, bytes.size() - at));
        const std::uint64_t index = (offset + at) / unit_;
        if (index < hashes_.size() && XXH3_64bits(unit.data(), unit.size()) == hashes_[index]) continue;
        return fail(EIO, file.path + ": its content is not what the manifest says, in the " +
                             std::to_string(unit.size()) + " bytes from byte " + std::to_string(offset + at));
    }
    return {};
}

}  // namespace tierfs::iobench
