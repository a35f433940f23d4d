#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/origin/origin.hpp"

namespace tierfs {
namespace open_origin_test {

Result<std::unique_ptr<Origin>> open(const std::string& source) {
    Settings settings;
    settings.source = source;
    settings.s3_anonymous = true;
    return open_origin(settings);
}

TEST(OpenOrigin, PicksByUrl) {
    const auto origin = open("s3://bkt/p/");
    ASSERT_TRUE(origin) << origin.error().message;
    EXPECT_EQ((*origin)->kind(), "s3");
    EXPECT_THAT((*origin)->identity(), testing::EndsWith("/bkt/p"));
}

TEST(OpenOrigin, NfsIsNotAskedBeforeItIsUsed) {
    const auto origin = open("nfs://Server.invalid,10.0.0.2:2049/export//path/?uid=7");
    ASSERT_TRUE(origin) << origin.error().message;
    EXPECT_EQ((*origin)->kind(), "nfs");
    EXPECT_EQ((*origin)->identity(), "nfs://server.invalid/export/path");
}

TEST(OpenOrigin, RefusesTheRestAndSaysWhatIsAllowed) {
    for (const char* source : {"", "relative/dir", "ftp://h/x", "file://host/x", "file:relative"}) {
        const auto origin = open(source);
        ASSERT_FALSE(origin) << source;
        EXPECT_EQ(origin.error().code, EINVAL) << source;
        EXPECT_THAT(origin.error().message, testing::HasSubstr("s3://BUCKET[/PREFIX]")) << source;
    }
    EXPECT_EQ(open("s3://").error().code, EINVAL);
    EXPECT_EQ(open("nfs://host").error().code, EINVAL);
}

}  // namespace open_origin_test
}  // namespace tierfs
