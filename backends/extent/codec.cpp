#include "backends/extent/codec.hpp"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "backends/extent/format.hpp"

namespace tierfs {
namespace {

struct FreeCompression {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct FreeDecompression {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

char* chars(std::byte* bytes) {
    return reinterpret_cast<char*>(bytes);
}
const char* chars(const std::byte* bytes) {
    return reinterpret_cast<const char*>(bytes);
}

bool decompress_zstd(std::span<const std::byte> stored, std::span<std::byte> out) {
    thread_local std::unique_ptr<ZSTD_DCtx, FreeDecompression> context;
    if (!context) context.reset(ZSTD_createDCtx());
    if (!context) return false;
    const std::size_t length =
        ZSTD_decompressDCtx(context.get(), out.data(), out.size(), stored.data(), stored.size());
    return ZSTD_isError(length) == 0 && length == out.size();
}

}  // namespace

struct Compressor::Contexts {
    std::unique_ptr<ZSTD_CCtx, FreeCompression> zstd;
    std::unique_ptr<std::byte[]> lz4;
};

Compressor::Compressor() = default;
Compressor::~Compressor() = default;
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;

std::optional<std::size_t> Compressor::compress(Codec codec, std::span<const std::byte> in,
                                                std::span<std::byte> out, int level) {
    if (in.empty() || in.size() > kMaxPackedObject || out.empty()) return std::nullopt;
    if (!contexts_) contexts_ = std::make_unique<Contexts>();
    if (codec == Codec::lz4) {
        if (!contexts_->lz4)
            contexts_->lz4 = std::make_unique<std::byte[]>(static_cast<std::size_t>(LZ4_sizeofState()));
        const auto most = static_cast<int>(std::min<std::size_t>(out.size(), LZ4_MAX_INPUT_SIZE));
        const int length = LZ4_compress_fast_extState(
            contexts_->lz4.get(), chars(in.data()), chars(out.data()), static_cast<int>(in.size()), most, 1);
        return length > 0 ? std::optional(static_cast<std::size_t>(length)) : std::nullopt;
    }
    if (codec != Codec::zstd) return std::nullopt;
    if (!contexts_->zstd) contexts_->zstd.reset(ZSTD_createCCtx());
    if (!contexts_->zstd) return std::nullopt;
    const std::size_t length =
        ZSTD_compressCCtx(contexts_->zstd.get(), out.data(), out.size(), in.data(), in.size(), level);
    return ZSTD_isError(length) == 0 ? std::optional(length) : std::nullopt;
}

bool decompress(Codec codec, std::span<const std::byte> stored, std::span<std::byte> out) {
    if (stored.size() > kMaxPackedObject || out.size() > kMaxPackedObject) return false;
    if (stored.empty() || out.empty()) return false;
    switch (codec) {
        case Codec::none:
            if (stored.size() != out.size()) return false;
            std::memmove(out.data(), stored.data(), out.size());
            return true;
        case Codec::lz4:
            return LZ4_decompress_safe(chars(stored.data()), chars(out.data()),
                                       static_cast<int>(stored.size()),
                                       static_cast<int>(out.size())) == static_cast<int>(out.size());
        case Codec::zstd:
            return decompress_zstd(stored, out);
    }
    return false;
}

}  // namespace tierfs
