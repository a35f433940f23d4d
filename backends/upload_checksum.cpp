#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "backends/writable_origin.hpp"

namespace tierfs {
namespace {

constexpr std::size_t kMd5Digits = 32;

int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

}  // namespace

std::vector<std::byte> from_hex(std::string_view text) {
    if (text.size() % 2 != 0) return {};
    std::vector<std::byte> bytes;
    bytes.reserve(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2) {
        const int high = digit(text[i]), low = digit(text[i + 1]);
        if (high < 0 || low < 0) return {};
        bytes.push_back(static_cast<std::byte>(high * 16 + low));
    }
    return bytes;
}

Result<std::string> md5_hex(std::span<const std::byte> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_md5(), nullptr) != 1)
        return fail(EIO, "OpenSSL: MD5, which uploads are checked with, is not available");
    std::string text;
    for (unsigned int i = 0; i < length; ++i) {
        text += kDigits[digest[i] >> 4U];
        text += kDigits[digest[i] & 15U];
    }
    return text;
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
    if (!std::all_of(text.begin(), text.begin() + kMd5Digits, [](char c) { return digit(c) >= 0; }))
        return false;
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
