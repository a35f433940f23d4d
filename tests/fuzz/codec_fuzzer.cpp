// floor: backends
// Compressed objects. Input: a byte for the codec, three for the size that the object is said to have, then
// the stored bytes; they are decompressed, and compressed.
#include <algorithm>
#include <vector>

#include "backends/extent/codec.hpp"
#include "backends/extent/format.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    if (size < 4) return 0;
    const auto codec = data[0] % 2 == 0 ? Codec::lz4 : Codec::zstd;
    const std::size_t claimed = data[1] | data[2] << 8U | (data[3] & 0x0FU) << 16U;
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(4);
    std::vector<std::byte> out(claimed);
    const bool taken = decompress(codec, bytes, out);
    std::vector<std::byte> again(claimed);
    fuzz::require(decompress(codec, bytes, again) == taken && (!taken || again == out),
                  "the same bytes mean the same");

    static Compressor compressor;
    const std::size_t most = longest_kept(bytes.size());
    std::vector<std::byte> stored(most);
    const auto length = compressor.compress(codec, bytes, stored);
    if (!length) return 0;
    fuzz::require(*length <= most, "what is kept is short enough");
    std::vector<std::byte> back(bytes.size());
    fuzz::require(decompress(codec, std::span(stored).first(*length), back) &&
                      std::equal(back.begin(), back.end(), bytes.begin()),
                  "what was compressed comes back");
    return 0;
}
