#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "backends/origin/writable_origin.hpp"
#include "config/base/hex.hpp"

namespace tierfs {
namespace {

constexpr std::size_t kMd5Digits = 32;

}  // namespace

Result<std::string> md5_hex(std::span<const std::byte> bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_md5(), nullptr) != 1)
        return fail(EIO, "OpenSSL: MD5, which uploads are checked with, is not available");
    return to_hex(std::as_bytes(std::span(digest.data(), length)));
}

Result<std::string> checksum_of_parts(std::span<const UploadPart> parts) {
    std::vector<std::byte> all;
    for (const auto& part : parts) {
        const auto digest = from_hex(part.checksum);
        all.insert(all.end(), digest.begin(), digest.end());
    }
    auto text = md5_hex(all);
    if (text) *text += "-" + std::to_string(parts.size());
    return text;
}

bool is_checksum(std::string_view text) {
    if (text.size() < kMd5Digits) return false;
    if (from_hex(text.substr(0, kMd5Digits)).empty()) return false;
    const auto rest = text.substr(kMd5Digits);
    if (rest.empty()) return true;
    return rest.size() > 1 && rest.front() == '-' &&
           std::all_of(rest.begin() + 1, rest.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Result<std::uint64_t> part_size_for(std::uint64_t size, std::uint64_t wanted, const UploadLimits& limits) {
    const auto up = [](std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; };
    const auto too_large = [&] {
        return fail(EFBIG, std::to_string(size) + " bytes are more than one object can have there (" +
                               std::to_string(limits.largest_object) + ")");
    };
    if (size > limits.largest_object) return too_large();
    const auto needed = (size + limits.most_parts - 1) / limits.most_parts;
    const auto part = up(std::max({needed, limits.smallest_part, wanted}), wanted);
    if (part > limits.largest_part) return too_large();
    return part;
}

}  // namespace tierfs
