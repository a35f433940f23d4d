#include "backends/s3/client/verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tierfs::s3 {
namespace verdict_test {

using testing::HasSubstr;

Target amazon() {
    Settings settings;
    settings.source = "s3://bkt";
    return *resolve_target(settings, {}, {});
}

http::Response reply(int status, const std::string& body = "", std::vector<http::Header> headers = {}) {
    http::Response response;
    response.status = status;
    response.body = body;
    response.headers = std::move(headers);
    return response;
}

Judgement judge_reply(const http::Response& response) {
    return judge(response, {}, amazon(), "GET x");
}

TEST(S3Verdict, FollowsTheBucketsRegion) {
    for (const auto& response :
         {reply(301, "", {{"x-amz-bucket-region", "eu-west-1"}}),
          reply(307, "", {{"x-amz-bucket-region", "eu-west-1"}}),
          reply(400, "", {{"x-amz-bucket-region", "eu-west-1"}}),
          reply(400, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>")}) {
        const auto judgement = judge_reply(response);
        EXPECT_EQ(judgement.verdict, Verdict::other_region);
        EXPECT_EQ(judgement.region, "eu-west-1");
        EXPECT_THAT(judgement.error.message, HasSubstr("set s3.region=eu-west-1"));
    }
    // Where we are already: no circle.
    for (const char* region : {"evil.example/", "a.b", "a@b", "x?", "", " ", "eu-west-1#"}) {
        const auto judgement = judge_reply(reply(301, "", {{"x-amz-bucket-region", region}}));
        EXPECT_NE(judgement.verdict, Verdict::other_region) << "the session's token would go to " << region;
    }
    EXPECT_NE(judge_reply(reply(301, "", {{"x-amz-bucket-region", "us-east-1"}})).verdict,
              Verdict::other_region);
    EXPECT_THAT(judge_reply(reply(301, "<Error><Code>PermanentRedirect</Code><Endpoint>e</Endpoint></Error>"))
                    .error.message,
                HasSubstr("the bucket is at e"));
}

TEST(S3Verdict, AWeakenedETagSaysWhatItIs) {
    Expectation reading;
    reading.size = 10;
    reading.version = "\"abc\"";
    auto response = reply(206, "", {{"etag", "W/\"abc\""}, {"content-range", "bytes 0-9/10"}});
    response.received = 10;
    const auto judgement = judge(response, reading, amazon(), "GET x");
    EXPECT_EQ(judgement.verdict, Verdict::final_error);
    EXPECT_EQ(judgement.error.code, EIO);
    EXPECT_THAT(judgement.error.message, HasSubstr("changes bodies"));
    response.headers[0].second = "W/\"other\"";
    EXPECT_EQ(judge(response, reading, amazon(), "GET x").error.code, ESTALE);
}

// Copies and completed uploads: 200 comes before the server knows how they end.
TEST(S3Verdict, AnErrorInAGoodReplyToAWriteIsThatError) {
    const auto judged = [](const std::string& code) {
        Expectation writing;
        writing.writing = true;
        return judge(reply(200, "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code></Error>"), writing,
                     amazon(), "PUT x");
    };
    EXPECT_EQ(judged("InternalError").verdict, Verdict::repeat);
    EXPECT_EQ(judged("SlowDown").verdict, Verdict::repeat);
    EXPECT_EQ(judged("PreconditionFailed").error.code, EEXIST);
    EXPECT_EQ(judged("NoSuchUpload").error.code, ENOENT);
    EXPECT_EQ(judged("AccessDenied").verdict, Verdict::final_error);
    EXPECT_EQ(judge_reply(reply(200, "<Error><Code>InternalError</Code></Error>")).verdict, Verdict::good)
        << "an object may hold anything";
}

TEST(S3Verdict, AForbiddenKeyInARegionHeaderIsNoRedirect) {
    const auto judgement = judge_reply(
        reply(403, "<Error><Code>AccessDenied</Code></Error>", {{"x-amz-bucket-region", "eu-west-1"}}));
    EXPECT_EQ(judgement.verdict, Verdict::final_error);
    EXPECT_EQ(judgement.error.code, EACCES);
}

TEST(S3Verdict, ABucketThatIsGoneIsNoMissingObject) {
    const auto gone = reply(404, "<Error><Code>NoSuchBucket</Code></Error>");
    EXPECT_EQ(judge(gone, {0, 10, "\"v\""}, amazon(), "GET x").error.code, EIO);
    EXPECT_EQ(judge_reply(gone).error.code, ENOENT) << "a listing's caller tells them apart";
    const auto missing = reply(404, "<Error><Code>NoSuchKey</Code></Error>");
    EXPECT_EQ(judge(missing, {0, 10, "\"v\""}, amazon(), "GET x").error.code, ENOENT);
}

TEST(S3Verdict, RepairsAreToldApart) {
    EXPECT_EQ(judge_reply(reply(403, "<Error><Code>RequestTimeTooSkewed</Code></Error>")).verdict,
              Verdict::wrong_clock);
    EXPECT_EQ(judge_reply(reply(400, "<Error><Code>ExpiredToken</Code></Error>")).verdict,
              Verdict::renew_credentials);
    EXPECT_EQ(judge_reply(reply(403, "<Error><Code>SignatureDoesNotMatch</Code></Error>")).verdict,
              Verdict::final_error);
    EXPECT_EQ(judge_reply(reply(503, "<Error><Code>SlowDown</Code></Error>")).verdict, Verdict::repeat);
    EXPECT_EQ(judge_reply(reply(400, "<Error><Code>RequestTimeout</Code></Error>")).verdict, Verdict::repeat);
    EXPECT_EQ(judge_reply(reply(200)).verdict, Verdict::good);
}

TEST(S3Verdict, AnObjectOfAnotherSizeThanWasLookedUpIsStale) {
    const auto code_of = [](const std::string& total, std::optional<std::uint64_t> object_size) {
        auto part = reply(206, "", {{"content-range", "bytes 20-29/" + total}, {"etag", "\"v\""}});
        part.received = 10;
        const auto judgement = judge(part, {20, 10, "\"v\"", false, object_size}, amazon(), "GET x");
        return judgement.verdict == Verdict::good ? 0 : judgement.error.code;
    };
    EXPECT_EQ(code_of("100", 100), 0);
    EXPECT_EQ(code_of("*", 100), 0) << "the server does not say";
    EXPECT_EQ(code_of("101", std::nullopt), 0) << "nobody has looked it up";
    for (const char* other : {"101", "99", "30", "18446744073709551615"})
        EXPECT_EQ(code_of(other, 100), ESTALE) << other;
}

TEST(S3Verdict, HintsAtPlainEndpoints) {
    http::Response response;
    response.failure = http::Failure::tls;
    response.detail = "error:0A00010B:SSL routines::wrong version number";
    EXPECT_THAT(judge_reply(response).error.message,
                HasSubstr("the endpoint speaks plain HTTP: use http://"));
    response.detail = "certificate has expired";
    EXPECT_THAT(judge_reply(response).error.message, Not(HasSubstr("use http")));
}

TEST(S3ContentRange, ReadsAndRefuses) {
    const auto range = parse_content_range("bytes 2-5/10");
    ASSERT_TRUE(range);
    EXPECT_EQ(range->first, 2U);
    EXPECT_EQ(range->last, 5U);
    EXPECT_EQ(range->total, 10U);
    EXPECT_EQ(parse_content_range("bytes 0-0/*")->total, std::nullopt);
    for (const char* text :
         {"", "bytes", "bytes */10", "bytes 5-2/10", "bytes 0-9/9", "bytes 0-9/10x", "bytes -1-2/3",
          "bytes 0-9", "bytes 0-9/", "items 0-9/10", "bytes 0-99999999999999999999/5"})
        EXPECT_FALSE(parse_content_range(text)) << text;
}

}  // namespace verdict_test
}  // namespace tierfs::s3
