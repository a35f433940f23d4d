// The vectors are those of "Authenticating Requests: Using the Authorization Header" in the S3 API Reference.
#include "backends/s3/client/sigv4.hpp"

#include <gtest/gtest.h>

namespace tierfs::s3 {
namespace sigv4_test {

constexpr std::time_t kTime = 1369353600;  // 20130524T000000Z
const Credentials kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

SigningInput input(std::string path, std::string query) {
    SigningInput result;
    result.method = "GET";
    result.host = "examplebucket.s3.amazonaws.com";
    result.path = std::move(path);
    result.query = std::move(query);
    result.payload_sha256 = sha256_hex("");
    return result;
}

std::string value(const std::vector<http::Header>& headers, std::string_view name) {
    for (const auto& [key, text] : headers) {
        if (key == name) return text;
    }
    return {};
}

std::string signature(const SigningInput& request, const Credentials& credentials = kExample) {
    Signer signer("us-east-1", "s3");
    const auto authorization = value(signer.sign(request, credentials, kTime), "Authorization");
    return authorization.substr(authorization.find("Signature=") + 10);
}

TEST(S3SigV4, GetObjectVector) {
    auto request = input("/test.txt", "");
    request.headers = {{"Range", "bytes=0-9"}};
    Signer signer("us-east-1", "s3");
    EXPECT_EQ(value(signer.sign(request, kExample, kTime), "Authorization"),
              "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
              "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
              "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(S3SigV4, ListObjectsVector) {
    EXPECT_EQ(signature(input("/", canonical_query({{"prefix", "J"}, {"max-keys", "2"}}))),
              "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(S3SigV4, LifecycleVector) {
    EXPECT_EQ(signature(input("/", canonical_query({{"lifecycle", ""}}))),
              "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST(S3SigV4, QueriesAreSortedAndEncoded) {
    EXPECT_EQ(canonical_query({}), "");
    EXPECT_EQ(canonical_query({{"b", "x y"}, {"a", "+/="}, {"a", ""}}), "a=&a=%2B%2F%3D&b=x%20y");
}

TEST(S3SigV4, HeadersAreSortedByNameNotByLine) {
    // As whole lines "x-amz-a-b:" would come before "x-amz-a:".
    auto request = input("/", "");
    request.headers = {{"X-Amz-A-B", "1"}, {"X-Amz-A", " two  blanks "}};
    Signer signer("us-east-1", "s3");
    const auto text = value(signer.sign(request, kExample, kTime), "Authorization");
    EXPECT_NE(text.find("SignedHeaders=host;x-amz-a;x-amz-a-b;x-amz-content-sha256;x-amz-date"),
              std::string::npos);
    auto tidy = request;
    tidy.headers = {{"x-amz-a", "two blanks"}, {"x-amz-a-b", "1"}};
    EXPECT_EQ(signature(request), signature(tidy));
}

TEST(S3SigV4, TheSessionTokenIsSentAndSigned) {
    auto credentials = kExample;
    credentials.session_token = "token";
    Signer signer("us-east-1", "s3");
    const auto headers = signer.sign(input("/", ""), credentials, kTime);
    EXPECT_EQ(value(headers, "x-amz-security-token"), "token");
    EXPECT_NE(value(headers, "Authorization").find(";x-amz-security-token,"), std::string::npos);
}

TEST(S3SigV4, TheKeptKeyFollowsSecretAndDay) {
    Signer signer("us-east-1", "s3");
    const auto request = input("/", "");
    const auto first = value(signer.sign(request, kExample, kTime), "Authorization");
    const auto next_day = value(signer.sign(request, kExample, kTime + 86400), "Authorization");
    auto other = kExample;
    other.secret_key = "other";
    const auto other_secret = value(signer.sign(request, other, kTime), "Authorization");
    EXPECT_NE(first, next_day);
    EXPECT_NE(first, other_secret);
    EXPECT_EQ(first, value(signer.sign(request, kExample, kTime), "Authorization"));
}

TEST(S3SigV4, HashesTheEmptyPayload) {
    EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256_hex(std::string_view()), sha256_hex(""));
}

}  // namespace sigv4_test
}  // namespace tierfs::s3
