#include "backends/s3/readwrite/body_digest.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "backends/s3/readwrite/part_sizes.hpp"

namespace tierfs::s3 {

Result<BodyDigest> BodyDigest::make(DigestKind kind) {
    Context context(EVP_MD_CTX_new());
    const auto* algorithm = kind == DigestKind::md5 ? EVP_md5() : EVP_sha256();
    if (!context || EVP_DigestInit_ex(context.get(), algorithm, nullptr) != 1)
        return fail(EIO, "OpenSSL: the digest that uploads are checked with is not available");
    return BodyDigest(std::move(context));
}

void BodyDigest::add(std::span<const std::byte> bytes) {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

std::string BodyDigest::value() const {
    const Context copy(EVP_MD_CTX_new());
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned length = 0;
    if (!copy || EVP_MD_CTX_copy_ex(copy.get(), context_.get()) != 1 ||
        EVP_DigestFinal_ex(copy.get(), digest.data(), &length) != 1)
        return {};
    return {reinterpret_cast<const char*>(digest.data()), length};
}

void PartDigests::written(std::span<const std::byte> bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
        const auto number = PartSizes::number(offset);
        const auto part = PartSizes::range(number);
        const auto piece =
            bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), part.end - offset)));
        if (offset == part.begin) {
            running_.reset();
            running_range_ = {offset, offset};
            if (auto begun = BodyDigest::make(kind_)) running_ = std::move(*begun);
        }
        if (running_ && running_range_.end == offset) {
            running_->add(piece);
            running_range_.end += piece.size();
            if (running_range_ == part) {
                whole_[number] = running_->value();
                running_.reset();
            }
        }
        offset += piece.size();
        bytes = bytes.subspan(piece.size());
    }
}

void PartDigests::forget(std::uint64_t begin, std::uint64_t end) {
    if (running_ && begin < running_range_.end && end > running_range_.begin) running_.reset();
    if (begin >= PartSizes::kLargestObject || whole_.empty()) return;
    const auto first = whole_.lower_bound(PartSizes::number(begin));
    auto last = first;
    while (last != whole_.end() && PartSizes::range(last->first).begin < end) ++last;
    whole_.erase(first, last);
}

std::string PartDigests::of(ByteRange range) const {
    if (running_ && running_range_ == range) return running_->value();
    if (range.begin >= PartSizes::kLargestObject) return {};
    const auto number = PartSizes::number(range.begin);
    const auto whole = whole_.find(number);
    return whole != whole_.end() && PartSizes::range(number) == range ? whole->second : std::string();
}

}  // namespace tierfs::s3
