#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>

#include "backends/http/url.hpp"
#include "backends/s3/s3_origin.hpp"
#include "tests/unit/backends/http/scripted_server.hpp"

namespace tierfs {
namespace {

using namespace std::chrono_literals;
using test::ChangingReply;
using test::Gate;
using test::How;
using test::ReceivedRequest;
using test::Reply;
using test::ScriptedServer;
using testing::HasSubstr;

constexpr const char* kContent = "0123456789abcdef";

Reply error(int status, const std::string& code, const std::string& message = "said so") {
    return {status, {}, "<Error><Code>" + code + "</Code><Message>" + message + "</Message></Error>"};
}

Reply listing(const std::string& inside) {
    return {200, {}, "<ListBucketResult><EncodingType>url</EncodingType>" + inside + "</ListBucketResult>"};
}

std::string contents(const std::string& key) {
    return "<Contents><Key>" + key + "</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>" +
           "<ETag>&quot;e&quot;</ETag><Size>16</Size></Contents>";
}

/// A bucket with the one object "f" of kContent.
Reply good(const ReceivedRequest& request) {
    if (request.target.find("list-type=2") != std::string::npos)
        return listing(request.target.find("prefix=") == std::string::npos ? contents("f") : "");
    if (request.target != "/bkt/f") return error(404, "NoSuchKey");
    const std::string content(kContent);
    if (request.method == "HEAD") return {200, {{"ETag", "\"e\""}, {"Content-Length", "16"}}, ""};
    if (request.header("if-match") != "\"e\"") return error(412, "PreconditionFailed");
    const auto range = request.header("range");
    const auto dash = range.find('-');
    const auto first = std::stoul(range.substr(6)), last = std::stoul(range.substr(dash + 1));
    return {206,
            {{"ETag", "\"e\""},
             {"Content-Range", "bytes " + std::to_string(first) + "-" + std::to_string(last) + "/16"}},
            content.substr(first, last - first + 1)};
}

class S3Origin : public testing::Test {
  protected:
    std::unique_ptr<Origin> open(ScriptedServer& server, std::chrono::milliseconds deadline = 20s) {
        settings_.s3_endpoint = server.url();
        settings_.origin_deadline = deadline;
        auto origin = open_s3_origin(settings_, environment_);
        EXPECT_TRUE(origin) << origin.error().message;
        return std::move(*origin);
    }

    static Result<std::string> read(Origin& origin, std::uint64_t offset = 0, std::size_t size = 16,
                                    const std::string& version = "\"e\"") {
        std::string bytes(size, '?');
        Gate gate;
        Result<void> result;
        OriginRead request;
        request.path = "f";
        request.version = version;
        request.offset = offset;
        request.destination = std::as_writable_bytes(std::span(bytes));
        request.done = [&](Result<void> outcome) {
            result = std::move(outcome);
            gate.open();
        };
        origin.read(std::move(request));
        EXPECT_TRUE(gate.wait());
        if (!result) return fail(result.error());
        return bytes;
    }

    /// Answers the n-th request (from 0) by `first` until n reaches `times`, then as a good server.
    static ScriptedServer::Handler at_first(int times, ScriptedServer::Handler first) {
        auto count = std::make_shared<int>(0);
        return [=](const ReceivedRequest& request) {
            return (*count)++ < times ? first(request) : good(request);
        };
    }
    static ScriptedServer::Handler at_first(int times, const Reply& first) {
        return at_first(times, [first](const ReceivedRequest&) { return first; });
    }

    Settings settings_ = [] {
        Settings settings;
        settings.source = "s3://bkt";
        settings.s3_anonymous = true;
        return settings;
    }();
    std::map<std::string, std::string> environment_{{"HOME", "/nonexistent"},
                                                    {"AWS_EC2_METADATA_DISABLED", "true"}};
};

TEST_F(S3Origin, ReadsExactlyTheRange) {
    ScriptedServer server(good);
    const auto origin = open(server);
    EXPECT_EQ(*read(*origin), kContent);
    EXPECT_EQ(*read(*origin, 4, 3), "456");
    const auto seen = server.requests();
    EXPECT_EQ(seen.at(1).header("range"), "bytes=4-6");
    EXPECT_EQ(seen.at(1).header("if-match"), "\"e\"");
    EXPECT_EQ(seen.at(1).headers.count("authorization"), 0U);
    EXPECT_EQ(origin->stats().get, 2U);
    EXPECT_EQ(origin->stats().bytes_read, 19U);
    EXPECT_EQ(*read(*origin, 0, 0), "");
    EXPECT_EQ(server.count(), 2U);
}

TEST_F(S3Origin, SignsWhenThereIsAKey) {
    settings_.s3_anonymous = false;
    environment_["AWS_ACCESS_KEY_ID"] = "AK";
    environment_["AWS_SECRET_ACCESS_KEY"] = "SK";
    ScriptedServer server(good);
    EXPECT_EQ(*read(*open(server)), kContent);
    const auto seen = server.requests().at(0);
    EXPECT_THAT(seen.header("authorization"), HasSubstr("Credential=AK/"));
    EXPECT_THAT(seen.header("authorization"),
                HasSubstr("SignedHeaders=host;if-match;range;x-amz-content-sha256;"));
}

TEST_F(S3Origin, StatTellsFilesDirectoriesAndNothing) {
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.target.find("prefix=dir%2F") != std::string::npos) return listing(contents("dir/x"));
        return good(request);
    });
    const auto origin = open(server);
    const auto file = origin->stat("f");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->kind, ObjectKind::file);
    EXPECT_EQ(file->size, 16U);
    EXPECT_EQ(file->version, "\"e\"");
    EXPECT_EQ(origin->stat("dir")->kind, ObjectKind::directory);
    EXPECT_EQ(origin->stat("")->kind, ObjectKind::directory);
    EXPECT_EQ(origin->stat("none").error().code, ENOENT);
    const auto stats = origin->stats();
    EXPECT_EQ(stats.head, 3U);
    EXPECT_EQ(stats.list, 3U);
    EXPECT_EQ(stats.errors, 0U);
}

TEST_F(S3Origin, ADirectoryWinsOverAFileInStat) {
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.target.find("list-type") != std::string::npos) return listing(contents("f/x"));
        return good(request);
    });
    EXPECT_EQ(open(server)->stat("f")->kind, ObjectKind::directory);
}

TEST_F(S3Origin, WhoMayNotListStillGetsFiles) {
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.target.find("list-type") != std::string::npos) return error(403, "AccessDenied");
        return request.target == "/bkt/f" ? good(request) : Reply{403, {}, ""};
    });
    const auto origin = open(server);
    EXPECT_EQ(origin->stat("f")->kind, ObjectKind::file);
    EXPECT_EQ(origin->stat("g").error().code, EACCES);
}

TEST_F(S3Origin, HeadTellsOfArchives) {
    ChangingReply head;
    ScriptedServer server([&](const ReceivedRequest& request) {
        return request.method == "HEAD" ? head(request) : good(request);
    });
    const auto origin = open(server);
    const auto archived = [&](std::vector<std::pair<std::string, std::string>> headers) {
        headers.emplace_back("Content-Length", "16");
        head.set({200, std::move(headers), ""});
        return origin->stat("f")->archived;
    };
    EXPECT_FALSE(archived({}));
    EXPECT_TRUE(archived({{"x-amz-storage-class", "DEEP_ARCHIVE"}}));
    EXPECT_FALSE(archived({{"x-amz-storage-class", "DEEP_ARCHIVE"},
                           {"x-amz-restore", "ongoing-request=\"false\", expiry-date=\"...\""}}));
    EXPECT_TRUE(archived(
        {{"x-amz-storage-class", "INTELLIGENT_TIERING"}, {"x-amz-archive-status", "ARCHIVE_ACCESS"}}));
}

TEST_F(S3Origin, ListsPageByPage) {
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.target.find("continuation-token=t%2B1") != std::string::npos)
            return listing(contents("p/b"));
        return listing("<IsTruncated>true</IsTruncated><NextContinuationToken>t+1</NextContinuationToken>" +
                       contents("p/a") + contents("p//x"));
    });
    const auto origin = open(server);
    const auto first = origin->list("p", "");
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->entries.at(0).name, "a");
    EXPECT_EQ(first->hidden.at("empty path component"), 1U);
    EXPECT_EQ(first->next, "t+1");
    const auto second = origin->list("p", first->next);
    EXPECT_EQ(second->entries.at(0).name, "b");
    EXPECT_EQ(second->next, "");
    EXPECT_THAT(server.requests().at(0).target, HasSubstr("delimiter=%2F&encoding-type=url&list-type=2"));
}

TEST_F(S3Origin, ARepeatedTokenIsNoEndlessListing) {
    ScriptedServer server([](const ReceivedRequest&) {
        return listing("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>");
    });
    const auto origin = open(server);
    EXPECT_EQ(origin->list("", "")->next, "t");
    EXPECT_EQ(origin->list("", "t").error().code, EIO);
}

TEST_F(S3Origin, ListingWhatIsNoDirectory) {
    ScriptedServer server(good);
    const auto origin = open(server);
    EXPECT_EQ(origin->list("f", "").error().code, ENOTDIR);
    EXPECT_EQ(origin->list("none", "").error().code, ENOENT);
}

TEST_F(S3Origin, AnEmptyBucketIsARootAndAnEmptyPrefixIsNot) {
    ScriptedServer server([](const ReceivedRequest& request) {
        return request.method == "HEAD" ? error(404, "NoSuchKey") : listing("");
    });
    EXPECT_TRUE(open(server)->check());
    EXPECT_TRUE(open(server)->list("", "")->entries.empty());
    settings_.source = "s3://bkt/p";
    EXPECT_EQ(open(server)->check().error().code, ENOENT);
    EXPECT_EQ(open(server)->list("", "").error().code, ENOENT);
}

TEST_F(S3Origin, CheckExplainsWhatIsWrong) {
    ChangingReply reply;
    reply.set(error(404, "NoSuchBucket"));
    ScriptedServer server(std::ref(reply));
    auto result = open(server)->check();
    EXPECT_EQ(result.error().code, ENOENT);
    EXPECT_THAT(result.error().message, HasSubstr("bucket bkt does not exist at " + server.url()));
    reply.set(error(403, "SignatureDoesNotMatch"));
    result = open(server)->check();
    EXPECT_EQ(result.error().code, EACCES);
    EXPECT_THAT(result.error().message, HasSubstr("403 SignatureDoesNotMatch: said so"));
    reply.set(Reply{200, {}, "\x15\x03\x01\x02\x02\x0a\x0a", How::raw});
    EXPECT_THAT(open(server)->check().error().message, HasSubstr("the endpoint speaks TLS: use https://"));
    reply.set(Reply{400, {}, "Client sent an HTTP request to an HTTPS server.\n"});
    EXPECT_THAT(open(server)->check().error().message, HasSubstr("the endpoint speaks TLS: use https://"));
    reply.set(Reply{200, {}, "<html>welcome</html>"});
    EXPECT_EQ(open(server)->check().error().code, EIO);
    reply.set({301, {{"x-amz-bucket-region", "eu-west-1"}}, ""});
    EXPECT_THAT(open(server)->check().error().message, HasSubstr("set s3.region=eu-west-1"));
}

TEST_F(S3Origin, CheckTellsOfUnreachableAndPlainEndpoints) {
    settings_.s3_endpoint = "http://127.0.0.1:1";
    auto origin = open_s3_origin(settings_, environment_);
    const auto refused = (*origin)->check();
    EXPECT_EQ(refused.error().code, EHOSTUNREACH);
    EXPECT_THAT(refused.error().message, HasSubstr("127.0.0.1"));
    ScriptedServer server([](const ReceivedRequest&) { return Reply{400, {}, ""}; });
    // The server reads a TLS hello as a request without end; so the reply has to come by itself.
    settings_.s3_endpoint = "https://127.0.0.1:" + std::to_string(server.port());
    settings_.origin_deadline = 300ms;
    origin = open_s3_origin(settings_, environment_);
    EXPECT_FALSE((*origin)->check());
}

TEST_F(S3Origin, AnotherVersionIsStale) {
    ScriptedServer server(good);
    const auto origin = open(server);
    EXPECT_EQ(read(*origin, 0, 16, "\"old\"").error().code, ESTALE);
    EXPECT_EQ(server.count(), 1U);
}

TEST_F(S3Origin, AServerThatIgnoresIfMatchDoesNotFoolUs) {
    ScriptedServer server([](const ReceivedRequest&) {
        return Reply{206, {{"ETag", "\"new\""}, {"Content-Range", "bytes 0-15/16"}}, kContent};
    });
    EXPECT_EQ(read(*open(server)).error().code, ESTALE);
}

TEST_F(S3Origin, WithoutETagsTimeAndSizeAreTheVersion) {
    ScriptedServer server([](const ReceivedRequest& request) {
        auto reply = good(request);
        if (request.method == "GET" && request.header("range").empty()) return reply;
        reply = {206,
                 {{"Last-Modified", "Thu, 01 Jan 1970 00:00:07 GMT"}, {"Content-Range", "bytes 0-15/16"}},
                 kContent};
        return reply;
    });
    const auto origin = open(server);
    EXPECT_EQ(*read(*origin, 0, 16, "7-16"), kContent);
    EXPECT_EQ(server.requests().at(0).headers.count("if-match"), 0U);
    EXPECT_EQ(read(*origin, 0, 16, "8-16").error().code, ESTALE);
}

TEST_F(S3Origin, StatusesBecomeErrnos) {
    ChangingReply reply;
    ScriptedServer server(std::ref(reply));
    const auto origin = open(server);
    const auto code = [&](Reply next) {
        reply.set(std::move(next));
        return read(*origin).error().code;
    };
    EXPECT_EQ(code(error(404, "NoSuchKey")), ENOENT);
    EXPECT_EQ(code(error(403, "AccessDenied")), EACCES);
    EXPECT_EQ(code(error(403, "InvalidObjectState")), EACCES);
    EXPECT_EQ(code(error(412, "PreconditionFailed")), ESTALE);
    EXPECT_EQ(code(error(416, "InvalidRange")), ESTALE);
    EXPECT_EQ(code(error(400, "Whatever")), EIO);
    EXPECT_EQ(code(error(418, "Teapot")), EIO);
    EXPECT_EQ(server.count(), 7U) << "none of them may be repeated";
}

TEST_F(S3Origin, WholeObjectsMayComeWithStatus200) {
    Reply reply{200, {{"ETag", "\"e\""}}, kContent};
    ScriptedServer server([&](const ReceivedRequest&) { return reply; });
    const auto origin = open(server);
    EXPECT_EQ(*read(*origin), kContent);
    const auto part = read(*origin, 0, 8);
    EXPECT_EQ(part.error().code, EIO);
    EXPECT_THAT(part.error().message, HasSubstr("does not know Range"));
    EXPECT_EQ(read(*origin, 8, 8).error().code, EIO);
}

TEST_F(S3Origin, RepeatsFailuresThatPass) {
    const std::vector<Reply> failures{error(503, "SlowDown"),
                                      error(500, "InternalError"),
                                      error(502, ""),
                                      error(504, ""),
                                      error(429, ""),
                                      error(400, "RequestTimeout"),
                                      {200, {}, "", How::reset},
                                      {206, {{"Content-Range", "bytes 0-15/16"}}, kContent, How::truncate},
                                      {206, {{"Content-Range", "bytes 1-16/17"}}, kContent},
                                      {206, {{"Content-Range", "bytes 0-15/16"}}, "short"},
                                      {206, {}, kContent}};
    for (std::size_t i = 0; i < failures.size(); ++i) {
        ScriptedServer server(at_first(2, failures[i]));
        const auto origin = open(server);
        const auto bytes = read(*origin);
        ASSERT_TRUE(bytes) << i << ": " << bytes.error().message;
        EXPECT_EQ(*bytes, kContent) << i;
        // libcurl may have repeated a reset by itself; then the server saw no more than it was asked.
        EXPECT_GE(origin->stats().retries, 1U) << i;
    }
}

TEST_F(S3Origin, ThrottlingIsCounted) {
    ScriptedServer server(at_first(3, error(503, "SlowDown")));
    const auto origin = open(server);
    EXPECT_EQ(*read(*origin), kContent);
    EXPECT_EQ(origin->stats().throttled, 3U);
    EXPECT_EQ(origin->stats().retries, 3U);
    EXPECT_EQ(origin->stats().get, 4U);
    EXPECT_EQ(origin->stats().errors, 0U);
}

TEST_F(S3Origin, RetryAfterBeyondTheDeadlineFailsAtOnce) {
    auto slow = error(503, "SlowDown");
    slow.headers = {{"Retry-After", "3000"}};
    ScriptedServer server([&](const ReceivedRequest&) { return slow; });
    const auto result = read(*open(server));
    EXPECT_EQ(result.error().code, ETIMEDOUT);
    EXPECT_THAT(result.error().message, HasSubstr("SlowDown"));
    EXPECT_EQ(server.count(), 1U);
}

TEST_F(S3Origin, AShrunkenObjectIsStale) {
    ScriptedServer server([](const ReceivedRequest&) {
        return Reply{206, {{"Content-Range", "bytes 0-9/10"}}, "0123456789"};
    });
    EXPECT_EQ(read(*open(server)).error().code, ESTALE);
    EXPECT_EQ(server.count(), 1U);
}

TEST_F(S3Origin, ARangeThatStaysWrongFailsBeforeTheDeadline) {
    ScriptedServer server([](const ReceivedRequest&) {
        return Reply{206, {{"Content-Range", "bytes 1-16/17"}}, kContent};
    });
    EXPECT_EQ(read(*open(server)).error().code, EIO);
    EXPECT_EQ(server.count(), 4U);
}

TEST_F(S3Origin, NothingOutlivesTheDeadline) {
    ScriptedServer stalling([](const ReceivedRequest&) { return Reply{200, {}, "", How::stall}; });
    const auto origin = open(stalling, 200ms);
    EXPECT_EQ(read(*origin).error().code, ETIMEDOUT);
    EXPECT_EQ(origin->stat("f").error().code, ETIMEDOUT);
    EXPECT_EQ(origin->list("", "").error().code, ETIMEDOUT);
    ScriptedServer failing([](const ReceivedRequest&) { return error(500, "InternalError"); });
    const auto result = read(*open(failing, 200ms));
    EXPECT_EQ(result.error().code, ETIMEDOUT);
    EXPECT_THAT(result.error().message, HasSubstr("500 InternalError"));
}

TEST_F(S3Origin, AWrongClockIsCorrectedOnce) {
    settings_.s3_anonymous = false;
    environment_["AWS_ACCESS_KEY_ID"] = "AK";
    environment_["AWS_SECRET_ACCESS_KEY"] = "SK";
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.header("x-amz-date").starts_with("2001")) return good(request);
        auto reply = request.method == "HEAD" ? Reply{403, {}, ""} : error(403, "RequestTimeTooSkewed");
        reply.headers = {{"Date", "Wed, 05 Sep 2001 10:00:00 GMT"}};
        return reply;
    });
    auto origin = open(server);
    EXPECT_EQ(*read(*origin), kContent);
    EXPECT_EQ(*read(*origin), kContent);
    EXPECT_EQ(server.count(), 3U);
    origin = open(server);
    EXPECT_TRUE(origin->stat("f")) << "HEAD has no body that tells of the clock";
}

TEST_F(S3Origin, AnExpiredKeyIsRenewedOnce) {
    ScriptedServer keys([n = 0](const ReceivedRequest&) mutable {
        return Reply{200, {}, "{\"AccessKeyId\":\"K" + std::to_string(n++) + "\",\"SecretAccessKey\":\"S\"}"};
    });
    settings_.s3_anonymous = false;
    environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = keys.url();
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.header("authorization").find("Credential=K0/") == std::string::npos) return good(request);
        return error(400, "ExpiredToken");
    });
    EXPECT_EQ(*read(*open(server)), kContent);
    EXPECT_EQ(keys.count(), 2U);
    ScriptedServer refusing([](const ReceivedRequest&) { return error(403, "InvalidAccessKeyId"); });
    EXPECT_EQ(read(*open(refusing)).error().code, EACCES);
    EXPECT_EQ(refusing.count(), 2U);
}

TEST_F(S3Origin, WithoutCredentialsThePlacesAreNamed) {
    settings_.s3_anonymous = false;
    ScriptedServer server(good);
    const auto result = open(server)->check();
    EXPECT_EQ(result.error().code, EACCES);
    for (const char* place : {"AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent/.aws/config",
                              "AWS_CONTAINER_CREDENTIALS", "AWS_EC2_METADATA_DISABLED", "s3.anonymous"})
        EXPECT_THAT(result.error().message, HasSubstr(place));
    EXPECT_EQ(server.count(), 0U);
}

TEST_F(S3Origin, StopEndsWhatIsUnderWay) {
    ScriptedServer server([](const ReceivedRequest&) { return Reply{200, {}, "", How::stall}; });
    settings_.origin_connections = 2;
    const auto origin = open(server);
    std::vector<std::byte> bytes(16);
    std::atomic<int> cancelled{0};
    for (int i = 0; i < 8; ++i) {
        OriginRead request;
        request.path = "f";
        request.destination = bytes;
        request.done = [&](const Result<void>& result) {
            EXPECT_EQ(result.error().code, ECANCELED);
            ++cancelled;
        };
        origin->read(std::move(request));
    }
    ASSERT_TRUE(server.wait_for_requests(2));
    origin->stop();
    EXPECT_EQ(cancelled, 8);
    EXPECT_EQ(read(*origin).error().code, ECANCELED);
    EXPECT_EQ(origin->stat("f").error().code, ECANCELED);
}

TEST_F(S3Origin, StopEndsWaitingForARepeatAndForCredentials) {
    auto slow = error(503, "SlowDown");
    slow.headers = {{"Retry-After", "5"}};
    ScriptedServer server([&](const ReceivedRequest&) { return slow; });
    ScriptedServer metadata([](const ReceivedRequest&) { return Reply{200, {}, "", How::stall}; });
    for (const bool anonymous : {true, false}) {
        settings_.s3_anonymous = anonymous;
        environment_ = {{"HOME", "/nonexistent"}, {"AWS_CONTAINER_CREDENTIALS_FULL_URI", metadata.url()}};
        const auto origin = open(server);
        std::vector<std::byte> bytes(16);
        std::atomic<int> code{0};
        OriginRead request;
        request.path = "f";
        request.destination = bytes;
        request.done = [&](const Result<void>& result) { code = result.error().code; };
        origin->read(std::move(request));
        EXPECT_TRUE(anonymous ? server.wait_for_requests(1) : metadata.wait_for_requests(1));
        origin->stop();
        EXPECT_EQ(code, ECANCELED);
    }
}

TEST_F(S3Origin, CredentialsThatDoNotComeEndWithTheDeadline) {
    ScriptedServer server(good);
    ScriptedServer metadata([](const ReceivedRequest&) { return Reply{200, {}, "", How::stall}; });
    settings_.s3_anonymous = false;
    environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = metadata.url();
    const auto result = read(*open(server, 200ms));
    EXPECT_EQ(result.error().code, ETIMEDOUT);
    EXPECT_THAT(result.error().message, HasSubstr("credentials"));
}

}  // namespace
}  // namespace tierfs
