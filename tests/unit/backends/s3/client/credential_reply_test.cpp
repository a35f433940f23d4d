// Credentials as services and processes tell them.
#include <gtest/gtest.h>

#include "backends/s3/client/credential_chain.hpp"

namespace tierfs::s3 {
namespace credential_reply_test {

std::string json(const std::string& token, const std::string& expiration) {
    return R"({"AccessKeyId":"A","SecretAccessKey":"S","Token":")" + token + R"(","Expiration":")" +
           expiration + R"("})";
}

std::string xml(const std::string& token, const std::string& expiration) {
    return "<R><AccessKeyId>A</AccessKeyId><SecretAccessKey>S</SecretAccessKey><SessionToken>" + token +
           "</SessionToken><Expiration>" + expiration + "</Expiration></R>";
}

TEST(S3CredentialReply, TheYear9999IsFarAhead) {
    for (const auto& found : {parse_credentials_json(json("T", "9999-12-31T23:59:59Z")),
                              parse_credentials_xml(xml("T", "9999-12-31T23:59:59Z"))}) {
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_GT(found->expiry.value(), WallClock::now() + std::chrono::hours(24 * 365 * 100));
    }
}

TEST(S3CredentialReply, AYearLongPastHasExpired) {
    for (const auto& found : {parse_credentials_json(json("T", "0001-01-01T00:00:00Z")),
                              parse_credentials_xml(xml("T", "0001-01-01T00:00:00Z"))}) {
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_LT(found->expiry.value(), WallClock::now());
    }
}

TEST(S3CredentialReply, ATokenCannotEndItsHeader) {
    for (const auto& found : {parse_credentials_json(json("T\\r\\nX: y", "2999-01-01T00:00:00Z")),
                              parse_credentials_json(json("T\\u0000", "2999-01-01T00:00:00Z")),
                              parse_credentials_xml(xml("T&#10;X: y", "2999-01-01T00:00:00Z"))}) {
        ASSERT_FALSE(found);
        EXPECT_EQ(found.error().code, EACCES);
    }
}

TEST(S3CredentialReply, WithoutAKeyThereIsNothing) {
    EXPECT_FALSE(parse_credentials_json("[]"));
    EXPECT_FALSE(parse_credentials_json(R"({"AccessKeyId":"A"})"));
    EXPECT_FALSE(parse_credentials_xml("<R><AccessKeyId>A</AccessKeyId></R>"));
}

}  // namespace credential_reply_test
}  // namespace tierfs::s3
