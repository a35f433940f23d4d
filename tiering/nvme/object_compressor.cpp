#include "tiering/nvme/object_compressor.hpp"

#include <algorithm>
#include <cstring>

#include "backends/extent/format.hpp"

namespace tierfs {
namespace {

std::span<std::byte> grown(AlignedBuffer& buffer, std::size_t size) {
    if (buffer.size() < size) buffer = AlignedBuffer(size);
    return buffer.span().first(size);
}

}  // namespace

std::span<const std::byte> ObjectCompressor::gather(std::span<const std::span<const std::byte>> pieces,
                                                    std::size_t size) {
    if (pieces.size() == 1) return pieces.front();
    const auto whole = grown(whole_, size);
    std::size_t at = 0;
    for (const auto piece : pieces) {
        if (!piece.empty()) std::memcpy(whole.data() + at, piece.data(), piece.size());
        at += piece.size();
    }
    return whole;
}

std::optional<std::span<const std::byte>> ObjectCompressor::compress(
    DatasetNumber dataset, Codec codec, std::span<const std::span<const std::byte>> pieces) {
    if (codec == Codec::none) return std::nullopt;
    std::size_t size = 0;
    for (const auto piece : pieces) size += piece.size();
    const std::uint64_t most = longest_kept(size);
    if (size > kMaxPackedObject || most == 0) return std::nullopt;
    Trials& trials = trials_.at(std::min<std::size_t>(dataset, kMostDatasets));
    if (trials.failed >= kFailures && ++trials.left_out < kEvery) return std::nullopt;
    trials.left_out = 0;
    const auto out = grown(stored_, most);
    const auto length = compressor_.compress(codec, gather(pieces, size), out);
    trials.failed = length ? 0 : std::min(trials.failed + 1, kFailures);
    if (!length) return std::nullopt;
    return out.first(*length);
}

}  // namespace tierfs
