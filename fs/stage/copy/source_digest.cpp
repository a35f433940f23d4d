#include "fs/stage/copy/source_digest.hpp"

#include <array>
#include <new>

#include "config/base/hex.hpp"
#include "config/base/json_text.hpp"

namespace tierfs::stage {

namespace {

constexpr std::size_t kDigits = 32;

}  // namespace

SourceDigest::SourceDigest(std::string wanted) : wanted_(std::move(wanted)), context_(::EVP_MD_CTX_new()) {
    if (!context_ || ::EVP_DigestInit_ex(context_.get(), ::EVP_md5(), nullptr) != 1) throw std::bad_alloc();
}

std::optional<SourceDigest> SourceDigest::of(const std::string& version) {
    std::string digits = version;
    if (digits.size() == kDigits + 2 && digits.front() == '"' && digits.back() == '"')
        digits = digits.substr(1, kDigits);
    if (digits.size() != kDigits || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
        return std::nullopt;
    return SourceDigest(std::move(digits));
}

void SourceDigest::add(std::span<const std::byte> data) {
    static_cast<void>(::EVP_DigestUpdate(context_.get(), data.data(), data.size()));
}

bool SourceDigest::matches() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned length = 0;
    if (::EVP_DigestFinal_ex(context_.get(), digest.data(), &length) != 1) return false;
    std::string text;
    for (unsigned i = 0; i < length; ++i) text += to_hex(digest.at(i), 2);
    return text == wanted_;
}

}  // namespace tierfs::stage
