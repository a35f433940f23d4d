#include "backends/s3/client/endpoint.hpp"

#include <gtest/gtest.h>

namespace tierfs::s3 {
namespace endpoint_test {

Settings source(const std::string& url, const std::string& endpoint = "") {
    Settings settings;
    settings.source = url;
    settings.s3_endpoint = endpoint;
    return settings;
}

TEST(S3Source, SplitsBucketAndPrefix) {
    EXPECT_EQ(*parse_source("s3://bkt"), std::pair(std::string("bkt"), std::string()));
    EXPECT_EQ(*parse_source("s3://bkt/"), std::pair(std::string("bkt"), std::string()));
    EXPECT_EQ(*parse_source("s3://bkt/a/b c//"), std::pair(std::string("bkt"), std::string("a/b c/")));
}

TEST(S3Source, RefusesWhatIsNoPath) {
    for (const char* text : {"", "s3://", "s3:///x", "s3://b//x", "s3://b/a/../c", "s3://b/.", "s3://b?x",
                             "s3://b@c", "s3://..", "http://b"})
        EXPECT_FALSE(parse_source(text)) << text;
}

TEST(S3Target, AmazonsOwn) {
    const auto target = resolve_target(source("s3://bkt/p"), {{"AWS_REGION", "eu-west-1"}}, {});
    ASSERT_TRUE(target);
    EXPECT_TRUE(target->aws);
    EXPECT_EQ(target->base(), "https://bkt.s3.eu-west-1.amazonaws.com");
    EXPECT_EQ(target->path("p/a b"), "/p/a%20b");
    EXPECT_EQ(target->path(""), "/");
    EXPECT_EQ(target->identity(), "s3://s3.amazonaws.com/bkt/p");
}

TEST(S3Target, BucketsWithDotsUseThePathOverTls) {
    const auto target = resolve_target(source("s3://b.c"), {}, {});
    EXPECT_EQ(target->base() + target->path(""), "https://s3.us-east-1.amazonaws.com/b.c");
}

TEST(S3Target, OwnEndpointsUseThePath) {
    const auto target = resolve_target(source("s3://bkt/p", "http://127.0.0.1:9000"), {}, {});
    ASSERT_TRUE(target);
    EXPECT_FALSE(target->aws);
    EXPECT_EQ(target->base() + target->path("k"), "http://127.0.0.1:9000/bkt/k");
    EXPECT_EQ(target->path(""), "/bkt");
    EXPECT_EQ(target->identity(), "s3://127.0.0.1:9000/bkt/p");
}

TEST(S3Target, TheIdentityDoesNotDependOnSpelling) {
    EXPECT_EQ(resolve_target(source("s3://b/p/", "HTTP://x"), {}, {}).has_value(), false);
    EXPECT_EQ(resolve_target(source("s3://b/p/", "http://Host:80/"), {}, {})->identity(),
              resolve_target(source("s3://b/p", "http://host"), {}, {})->identity());
    EXPECT_EQ(resolve_target(source("s3://b"), {{"AWS_REGION", "eu-west-1"}}, {})->identity(),
              resolve_target(source("s3://b", "https://s3.us-east-1.amazonaws.com"), {}, {})->identity());
}

TEST(S3Target, AddressingCanBeChosen) {
    auto settings = source("s3://bkt", "http://s3.local:9000");
    settings.s3_addressing = AddressingStyle::virtual_host;
    EXPECT_EQ(resolve_target(settings, {}, {})->base(), "http://bkt.s3.local:9000");
    settings.s3_endpoint = "http://127.0.0.1";
    EXPECT_FALSE(resolve_target(settings, {}, {}));
}

TEST(S3Target, EndpointAndRegionByPrecedence) {
    const IniSection profile{{"region", "pr"}, {"endpoint_url", "http://profile"}, {"ca_bundle", "/p"}};
    auto settings = source("s3://bkt");
    auto target = resolve_target(settings, {}, profile);
    EXPECT_EQ(target->endpoint.host, "profile");
    EXPECT_EQ(target->region, "pr");
    Environment environment{
        {"AWS_ENDPOINT_URL", "http://all"}, {"AWS_DEFAULT_REGION", "dr"}, {"AWS_CA_BUNDLE", "/e"}};
    target = resolve_target(settings, environment, profile);
    EXPECT_EQ(target->endpoint.host, "all");
    EXPECT_EQ(target->region, "dr");
    EXPECT_EQ(resolve_ca_bundle(settings, environment, profile), "/e");
    environment["AWS_ENDPOINT_URL_S3"] = "http://s3only";
    environment["AWS_REGION"] = "rr";
    target = resolve_target(settings, environment, profile);
    EXPECT_EQ(target->endpoint.host, "s3only");
    EXPECT_EQ(target->region, "rr");
    settings.s3_endpoint = "http://setting";
    settings.s3_region = "sr";
    target = resolve_target(settings, environment, profile);
    EXPECT_EQ(target->endpoint.host, "setting");
    EXPECT_EQ(target->region, "sr");
}

TEST(S3Target, RefusesWrongEndpointsAndRegions) {
    EXPECT_FALSE(resolve_target(source("s3://b", "http://h/path"), {}, {}));
    EXPECT_FALSE(resolve_target(source("s3://b", "h:9000"), {}, {}));
    const auto with_password = resolve_target(source("s3://b", "http://user:secret@h"), {}, {});
    ASSERT_FALSE(with_password);
    EXPECT_EQ(with_password.error().message.find("secret"), std::string::npos);
    EXPECT_FALSE(resolve_target(source("s3://b"), {{"AWS_REGION", "evil.com/"}}, {}));
}

TEST(S3Target, MovesToAnotherRegion) {
    auto target = *resolve_target(source("s3://bkt"), {}, {});
    target.move_to("eu-west-1");
    EXPECT_EQ(target.base(), "https://bkt.s3.eu-west-1.amazonaws.com");
    EXPECT_EQ(target.region, "eu-west-1");
}

}  // namespace endpoint_test
}  // namespace tierfs::s3
