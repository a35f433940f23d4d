#include "backends/s3/readwrite/body_digest.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "backends/s3/readwrite/part_sizes.hpp"

namespace tierfs::s3 {
namespace body_digest_test {

constexpr auto kPart = PartSizes::kFirst;

std::string digest(DigestKind kind, std::string_view bytes) {
    auto made = BodyDigest::make(kind);
    made->add(std::as_bytes(std::span(bytes)));
    return made->value();
}

std::string hexadecimal(std::string_view bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const char c : bytes) {
        text += kDigits[static_cast<unsigned char>(c) >> 4U];
        text += kDigits[static_cast<unsigned char>(c) & 15U];
    }
    return text;
}

/// A file, and what is said of it.
class Written {
  public:
    void write(std::string_view bytes, std::uint64_t offset) {
        if (offset + bytes.size() > content_.size()) content_.resize(offset + bytes.size());
        content_.replace(offset, bytes.size(), bytes);
        digests_.forget(offset, offset + bytes.size());
        digests_.written(std::as_bytes(std::span(bytes)), offset);
    }
    void resize(std::uint64_t size) {
        digests_.forget(std::min<std::uint64_t>(size, content_.size()),
                        std::max<std::uint64_t>(size, content_.size()));
        content_.resize(size);
    }
    [[nodiscard]] std::uint64_t size() const { return content_.size(); }
    [[nodiscard]] bool knows(ByteRange range) const {
        const auto said = digests_.of(range);
        if (said.empty()) return false;
        const auto bytes = std::string_view(content_).substr(range.begin, range.end - range.begin);
        EXPECT_EQ(said, digest(DigestKind::sha256, bytes)) << range.begin << " to " << range.end;
        return true;
    }

  private:
    std::string content_;
    PartDigests digests_{DigestKind::sha256};
};

TEST(BodyDigest, ValuesAreThoseOfTheAlgorithms) {
    EXPECT_EQ(hexadecimal(digest(DigestKind::md5, "abc")), "900150983cd24fb0d6963f7d28e17f72");  // RFC 1321
    // FIPS 180-4
    EXPECT_EQ(hexadecimal(digest(DigestKind::sha256, "abc")),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    auto both = BodyDigest::make(DigestKind::md5);
    both->add(std::as_bytes(std::span("ab", 2)));
    (void)both->value();
    both->add(std::as_bytes(std::span("c", 1)));
    EXPECT_EQ(both->value(), digest(DigestKind::md5, "abc")) << "more can be added after a value was taken";
}

TEST(PartDigests, KnowsWhatWasWrittenFromFrontToBack) {
    Written file;
    const std::string piece(1U << 20U, 'x');
    for (int i = 0; i < 20; ++i) file.write(piece, file.size());
    EXPECT_TRUE(file.knows({0, kPart}));
    EXPECT_TRUE(file.knows({kPart, 2 * kPart}));
    EXPECT_TRUE(file.knows({2 * kPart, file.size()}));
    EXPECT_FALSE(file.knows({2 * kPart, 3 * kPart}));
    EXPECT_FALSE(file.knows({kPart, 2 * kPart - 1}));
}

TEST(PartDigests, ForgetsWhatIsWrittenToAgain) {
    Written file;
    file.write(std::string(2 * kPart + 1000, 'x'), 0);
    file.write("y", 10);
    EXPECT_FALSE(file.knows({0, kPart}));
    EXPECT_TRUE(file.knows({kPart, 2 * kPart}));
    file.write("y", 2 * kPart + 10);
    EXPECT_FALSE(file.knows({2 * kPart, file.size()}));
    file.write(std::string(2000, 'z'), 2 * kPart);
    EXPECT_TRUE(file.knows({2 * kPart, file.size()}));
    file.resize(2 * kPart + 1999);
    EXPECT_FALSE(file.knows({2 * kPart, file.size()}));
    file.resize(kPart + 5);
    EXPECT_FALSE(file.knows({kPart, 2 * kPart}));
}

TEST(PartDigests, WhatItSaysIsTrueAfterAnything) {
    std::mt19937 chance(7);
    const auto below = [&](std::uint64_t end) {
        return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(chance);
    };
    Written file;
    unsigned known = 0;
    for (int i = 0; i < 300; ++i) {
        const std::string piece(1 + below(3 << 20), static_cast<char>('a' + below(26)));
        switch (below(6)) {
            case 0:
                file.write(piece, below(3 * kPart));
                break;
            case 1:
                file.write(piece, below(4) * kPart);
                break;
            case 2:
                file.resize(below(3 * kPart));
                break;
            default:
                if (file.size() < 4 * kPart) file.write(piece, file.size());
        }
        for (std::uint64_t at = 0; at < file.size(); at += kPart)
            known += file.knows({at, std::min<std::uint64_t>(at + kPart, file.size())}) ? 1 : 0;
    }
    EXPECT_GT(known, 50U);
}

}  // namespace body_digest_test
}  // namespace tierfs::s3
