#include "fs/stage/copy/source_digest.hpp"

#include <gtest/gtest.h>

namespace tierfs::stage {

TEST(StageSourceDigest, KnowsAnMd5WhenItSeesOne) {
    constexpr const char* kOfAbc = "900150983cd24fb0d6963f7d28e17f72";  // RFC 1321, A.5
    const std::string abc = "abc";
    for (const std::string& version : {std::string(kOfAbc), '"' + std::string(kOfAbc) + '"'}) {
        auto digest = SourceDigest::of(version);
        ASSERT_TRUE(digest);
        digest->add(std::as_bytes(std::span(abc)).first(1));
        digest->add(std::as_bytes(std::span(abc)).subspan(1));
        EXPECT_TRUE(digest->matches());
        auto other = SourceDigest::of(version);
        other->add(std::as_bytes(std::span(abc)).first(2));
        EXPECT_FALSE(other->matches());
    }
    for (const char* version :
         {"", "\"\"", "900150983cd24fb0d6963f7d28e17f72-2", "\"5f0a-64\"", "12:34:56:78",
          "900150983cd24fb0d6963f7d28e17f7X", "W/\"900150983cd24fb0d6963f7d28e17f72\""})
        EXPECT_FALSE(SourceDigest::of(version)) << version;
}

}  // namespace tierfs::stage
