#include "backends/s3/client/profile.hpp"

#include <gtest/gtest.h>

#include "backends/s3/client/credential_chain.hpp"

namespace tierfs::s3 {
namespace profile_test {

TEST(S3Ini, ReadsSectionsAndKeys) {
    const auto ini = parse_ini(
        "# comment\n[default]\naws_access_key_id = A\r\n  Region=eu-west-1 # near\n\n; more\n[ profile x "
        "]\nkey=a=b#c\n");
    EXPECT_EQ(ini.at("default").at("aws_access_key_id"), "A");
    EXPECT_EQ(ini.at("default").at("region"), "eu-west-1");
    EXPECT_EQ(ini.at("profile x").at("key"), "a=b#c");
}

TEST(S3Ini, IndentedLinesBelongToTheEmptyKeyAbove) {
    const auto ini = parse_ini(
        "[services s]\ns3 =\n  endpoint_url = http://a\n  other = 1\nsts =\n\tendpoint_url=http://b\n");
    EXPECT_EQ(ini.at("services s").at("s3.endpoint_url"), "http://a");
    EXPECT_EQ(ini.at("services s").at("s3.other"), "1");
    EXPECT_EQ(ini.at("services s").at("sts.endpoint_url"), "http://b");
}

TEST(S3Ini, GarbageTakesNothingElseAway) {
    const auto ini = parse_ini("key before = section\n[broken\nlost = 1\n[ok]\nno equals\n=\nx = 1\n" +
                               std::string("\0\xff", 2));
    EXPECT_EQ(ini.at("ok").at("x"), "1");
    EXPECT_EQ(ini.count("broken"), 0U);
    EXPECT_TRUE(parse_ini("").empty());
    EXPECT_TRUE(parse_ini("[").empty());
    EXPECT_TRUE(parse_ini(std::string(100000, '[')).empty());
}

TEST(S3Profile, TheCredentialsFileWins) {
    ProfileFiles files;
    files.config = parse_ini(
        "[default]\nregion=r\naws_access_key_id=old\n[profile p]\nregion=q\nservices=s\n"
        "[services s]\ns3=\n endpoint_url=http://e\n");
    files.credentials = parse_ini("[default]\naws_access_key_id=new\n[p]\naws_access_key_id=k\n");
    EXPECT_EQ(files.profile("default").at("aws_access_key_id"), "new");
    EXPECT_EQ(files.profile("default").at("region"), "r");
    EXPECT_EQ(files.profile("p").at("aws_access_key_id"), "k");
    EXPECT_EQ(files.profile("p").at("region"), "q");
    EXPECT_EQ(files.profile("p").at("services.s3.endpoint_url"), "http://e");
    EXPECT_TRUE(files.profile("nobody").empty());
}

TEST(S3Profile, ItsNameComesFromSettingThenEnvironment) {
    EXPECT_EQ(profile_name("s", {{"AWS_PROFILE", "e"}}), "s");
    EXPECT_EQ(profile_name("", {{"AWS_PROFILE", "e"}}), "e");
    EXPECT_EQ(profile_name("", {}), "default");
}

TEST(S3Profile, UnreadableFilesAreTold) {
    const auto files =
        ProfileFiles::load({{"AWS_CONFIG_FILE", "/proc/self"}, {"AWS_SHARED_CREDENTIALS_FILE", "/no"}});
    EXPECT_NE(files.trouble.find("/proc/self"), std::string::npos);
    EXPECT_EQ(files.trouble.find("/no"), std::string::npos);
}

TEST(S3Profile, SplitsCommandLinesLikeAShellWithoutItsOtherMeanings) {
    EXPECT_EQ(*split_words("a 'b c' \"d \\\"e\" f\\ g ''"),
              (std::vector<std::string>{"a", "b c", "d \"e", "f g", ""}));
    EXPECT_EQ(*split_words("a;b $(c) `d` | e > f"),
              (std::vector<std::string>{"a;b", "$(c)", "`d`", "|", "e", ">", "f"}));
    EXPECT_EQ(*split_words("  "), std::vector<std::string>{});
    EXPECT_FALSE(split_words("a 'b"));
}

}  // namespace profile_test
}  // namespace tierfs::s3
