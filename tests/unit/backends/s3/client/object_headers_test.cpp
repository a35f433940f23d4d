#include "backends/s3/client/object_headers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backends/s3/client/client.hpp"
#include "tests/unit/backends/s3/client/origin_fixture.hpp"

namespace tierfs::s3 {
namespace object_headers_test {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kKey = "0123456789abcdef0123456789abcdef";
constexpr const char* kKeyBase64 = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

class ObjectHeadersTest : public testing::Test {
  protected:
    ObjectHeadersTest() { std::filesystem::create_directory(folder_); }
    ~ObjectHeadersTest() override { std::filesystem::remove_all(folder_); }

    std::string key_file(const std::string& text, mode_t mode = 0600) {
        const auto path = folder_ / "key";
        std::ofstream(path, std::ios::binary) << text;
        ::chmod(path.c_str(), mode);
        return path.native();
    }
    /// Names of the headers that a request gets.
    std::vector<std::string> names(RequestKind kind, const Query& query = {}, const std::string& key = "k",
                                   const std::vector<http::Header>& own = {}) {
        const auto made = ObjectHeaders::from(settings_, true);
        EXPECT_TRUE(made) << made.error().message;
        Operation operation;
        operation.kind = kind;
        operation.query = query;
        operation.key = key;
        operation.headers = own;
        std::vector<http::Header> headers;
        made->add_to(operation, headers);
        std::vector<std::string> found;
        for (const auto& header : headers) found.push_back(header.first);
        return found;
    }
    Error refused(bool encrypted_wire = true) {
        const auto made = ObjectHeaders::from(settings_, encrypted_wire);
        EXPECT_FALSE(made);
        return made ? Error{} : made.error();
    }

    const std::filesystem::path folder_ =
        std::filesystem::temp_directory_path() / ("object-headers-" + std::to_string(::getpid()));
    Settings settings_;
};

TEST_F(ObjectHeadersTest, WithoutSettingsThereAreNone) {
    for (const auto kind : {RequestKind::get, RequestKind::head, RequestKind::list, RequestKind::put,
                            RequestKind::post, RequestKind::remove})
        EXPECT_THAT(names(kind), IsEmpty());
}

TEST_F(ObjectHeadersTest, PayerAndOwnerStandInEachRequest) {
    settings_.s3_requester_pays = true;
    settings_.s3_bucket_owner = "123456789012";
    for (const auto kind : {RequestKind::get, RequestKind::head, RequestKind::list, RequestKind::put,
                            RequestKind::post, RequestKind::remove}) {
        EXPECT_THAT(names(kind), Contains("x-amz-request-payer"));
        EXPECT_THAT(names(kind), Contains("x-amz-expected-bucket-owner"));
        EXPECT_THAT(names(kind), Not(Contains("x-amz-source-expected-bucket-owner")));
    }
    EXPECT_THAT(names(RequestKind::put, {}, "k", {{"x-amz-copy-source", "/b/other"}}),
                Contains("x-amz-source-expected-bucket-owner"));
}

TEST_F(ObjectHeadersTest, ClassListAndEncryptionStandWhereAnObjectIsMade) {
    settings_.s3_storage_class = "STANDARD_IA";
    settings_.s3_acl = "bucket-owner-full-control";
    settings_.s3_encryption = "aws:kms";
    settings_.s3_kms_key = "alias/data";
    const auto all =
        testing::UnorderedElementsAre("x-amz-storage-class", "x-amz-acl", "x-amz-server-side-encryption",
                                      "x-amz-server-side-encryption-aws-kms-key-id");
    EXPECT_THAT(names(RequestKind::put), all);
    EXPECT_THAT(names(RequestKind::put, {}, "k", {{"x-amz-copy-source", "/b/other"}}), all);
    EXPECT_THAT(names(RequestKind::post, {{"uploads", ""}}), all);
    EXPECT_THAT(names(RequestKind::put, {{"partNumber", "1"}, {"uploadId", "u"}}), IsEmpty());
    EXPECT_THAT(names(RequestKind::put, {{"tagging", ""}}), IsEmpty());
    EXPECT_THAT(names(RequestKind::post, {{"uploadId", "u"}}), IsEmpty());
    EXPECT_THAT(names(RequestKind::get), IsEmpty());
    EXPECT_THAT(names(RequestKind::list, {}, ""), IsEmpty());
    EXPECT_THAT(names(RequestKind::remove), IsEmpty());
}

TEST_F(ObjectHeadersTest, TheCustomersKeyGoesWithBytes) {
    const std::string own = "x-amz-server-side-encryption-customer-key",
                      copied = "x-amz-copy-source-server-side-encryption-customer-key";
    for (const std::string& text :
         {std::string(kKey), std::string(kKeyBase64), kKeyBase64 + std::string("\n")}) {
        settings_.s3_customer_key = key_file(text);
        for (const auto& found :
             {names(RequestKind::get), names(RequestKind::head), names(RequestKind::put),
              names(RequestKind::put, {{"partNumber", "1"}, {"uploadId", "u"}}),
              names(RequestKind::post, {{"uploads", ""}}), names(RequestKind::post, {{"uploadId", "u"}})}) {
            EXPECT_THAT(found, Contains(own));
            EXPECT_THAT(found, Not(Contains(copied)));
        }
        const auto copy = names(RequestKind::put, {}, "k", {{"x-amz-copy-source", "/b/other"}});
        EXPECT_THAT(copy, Contains(own));
        EXPECT_THAT(copy, Contains(copied));
        for (const auto& found :
             {names(RequestKind::list, {}, ""), names(RequestKind::remove), names(RequestKind::head, {}, ""),
              names(RequestKind::put, {{"tagging", ""}})})
            EXPECT_THAT(found, IsEmpty());
    }
}

TEST_F(ObjectHeadersTest, AKeyThatOthersMaySeeIsRefused) {
    settings_.s3_customer_key = key_file(kKey, 0640);
    EXPECT_EQ(refused().code, EACCES);
    EXPECT_THAT(refused().message, HasSubstr("chmod 600"));
    settings_.s3_customer_key = key_file(kKey, 0600);
    EXPECT_THAT(refused(false).message, HasSubstr("https"));
}

TEST_F(ObjectHeadersTest, WhatIsNoKeyIsRefused) {
    settings_.s3_customer_key = (folder_ / "none").native();
    EXPECT_EQ(refused().code, ENOENT);
    for (const auto* text :
         {"", "too short", "MDEyMzQ1Njc4OWFiY2RlZg==", "0123456789abcdef0123456789abcdef0"}) {
        settings_.s3_customer_key = key_file(text);
        EXPECT_EQ(refused().code, EINVAL) << text;
    }
    settings_.s3_customer_key = key_file(std::string(100000, 'x'));
    EXPECT_EQ(refused().code, EINVAL);
}

class S3OriginHeaders : public test::S3OriginTest {};

TEST_F(S3OriginHeaders, AreSignedAndSent) {
    settings_.s3_anonymous = false;
    settings_.s3_requester_pays = true;
    environment_["AWS_ACCESS_KEY_ID"] = "AK";
    environment_["AWS_SECRET_ACCESS_KEY"] = "SK";
    test::ScriptedServer server(test::good);
    EXPECT_EQ(*read(*open(server)), test::kContent);
    const auto seen = server.requests().at(0);
    EXPECT_EQ(seen.header("x-amz-request-payer"), "requester");
    EXPECT_THAT(seen.header("authorization"), HasSubstr("x-amz-request-payer"));
}

}  // namespace object_headers_test
}  // namespace tierfs::s3
