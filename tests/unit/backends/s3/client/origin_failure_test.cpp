#include "tests/unit/backends/s3/client/origin_fixture.hpp"

namespace tierfs {
namespace origin_failure_test {

using namespace tierfs::test;
using testing::HasSubstr;

class S3OriginFailure : public S3OriginTest {};

TEST_F(S3OriginFailure, RepeatsFailuresThatPass) {
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

TEST_F(S3OriginFailure, AFewBrokenRepliesAreBorneWhateverFailedBeforeThem) {
    std::atomic<int> asked{0};
    ScriptedServer server([&](const ReceivedRequest& request) {
        const int number = ++asked;
        if (number <= 4) return error(503, "SlowDown");
        if (number <= 6) return Reply{206, {{"Content-Range", "bytes 1-16/17"}}, kContent};
        return good(request);
    });
    const auto bytes = read(*open(server));
    ASSERT_TRUE(bytes) << bytes.error().message;
    EXPECT_EQ(*bytes, kContent);
}

TEST_F(S3OriginFailure, ThrottlingIsCounted) {
    ScriptedServer server(at_first(3, error(503, "SlowDown")));
    const auto origin = open(server);
    EXPECT_EQ(*read(*origin), kContent);
    EXPECT_EQ(origin->stats().throttled, 3U);
    EXPECT_EQ(origin->stats().retries, 3U);
    EXPECT_EQ(origin->stats().get, 4U);
    EXPECT_EQ(origin->stats().errors, 0U);
}

TEST_F(S3OriginFailure, RetryAfterBeyondTheDeadlineFailsAtOnce) {
    auto slow = error(503, "SlowDown");
    slow.headers = {{"Retry-After", "3000"}};
    ScriptedServer server([&](const ReceivedRequest&) { return slow; });
    const auto result = read(*open(server));
    EXPECT_EQ(result.error().code, ETIMEDOUT);
    EXPECT_THAT(result.error().message, HasSubstr("SlowDown"));
    EXPECT_EQ(server.count(), 1U);
}

TEST_F(S3OriginFailure, AShrunkenObjectIsStale) {
    ScriptedServer server([](const ReceivedRequest&) {
        return Reply{206, {{"Content-Range", "bytes 0-9/10"}}, "0123456789"};
    });
    EXPECT_EQ(read(*open(server)).error().code, ESTALE);
    EXPECT_EQ(server.count(), 1U);
}

TEST_F(S3OriginFailure, ARangeThatStaysWrongFailsBeforeTheDeadline) {
    ScriptedServer server([](const ReceivedRequest&) {
        return Reply{206, {{"Content-Range", "bytes 1-16/17"}}, kContent};
    });
    EXPECT_EQ(read(*open(server)).error().code, EIO);
    EXPECT_EQ(server.count(), 4U);
}

TEST_F(S3OriginFailure, NothingOutlivesTheDeadline) {
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

TEST_F(S3OriginFailure, AWrongClockIsCorrectedOnce) {
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

TEST_F(S3OriginFailure, AClockInTheYear9999IsHandled) {
    settings_.s3_anonymous = false;
    environment_["AWS_ACCESS_KEY_ID"] = "AK";
    environment_["AWS_SECRET_ACCESS_KEY"] = "SK";
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.header("x-amz-date").starts_with("9999")) return good(request);
        auto reply = error(403, "RequestTimeTooSkewed");
        reply.headers = {{"Date", "Thu, 30 Dec 9999 10:00:00 GMT"}};
        return reply;
    });
    EXPECT_EQ(*read(*open(server)), kContent);
}

TEST_F(S3OriginFailure, AWrongClockIsCorrectedForAllThatAreUnderWay) {
    settings_.s3_anonymous = false;
    environment_["AWS_ACCESS_KEY_ID"] = "AK";
    environment_["AWS_SECRET_ACCESS_KEY"] = "SK";
    std::atomic<Origin*> opened{nullptr};
    ScriptedServer server([&](const ReceivedRequest& request) {
        if (request.header("x-amz-date").starts_with("2001")) return good(request);
        // No reply before all have been signed with the wrong time.
        const auto limit = std::chrono::steady_clock::now() + 20s;
        while (opened.load()->stats().get < 3 && std::chrono::steady_clock::now() < limit)
            std::this_thread::sleep_for(1ms);
        auto reply = error(403, "RequestTimeTooSkewed");
        reply.headers = {{"Date", "Wed, 05 Sep 2001 10:00:00 GMT"}};
        return reply;
    });
    auto origin = open(server);
    opened = origin.get();
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i) {
        readers.emplace_back([&] {
            const auto found = read(*origin);
            EXPECT_TRUE(found) << found.error().message;
        });
    }
    for (auto& reader : readers) reader.join();
}

TEST_F(S3OriginFailure, AnExpiredKeyIsRenewedOnce) {
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

/// A container's metadata service; its n-th answer (from 0) is the key "Kn".
ScriptedServer::Handler numbered_keys() {
    auto number = std::make_shared<int>(0);
    return [number](const ReceivedRequest&) {
        return Reply{
            200, {}, "{\"AccessKeyId\":\"K" + std::to_string((*number)++) + "\",\"SecretAccessKey\":\"S\"}"};
    };
}

bool used_key(const ReceivedRequest& request, const std::string& key) {
    return request.header("authorization").find("Credential=" + key + "/") != std::string::npos;
}

TEST_F(S3OriginFailure, ADeniedObjectRenewsNoCredentials) {
    ScriptedServer keys(numbered_keys());
    settings_.s3_anonymous = false;
    environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = keys.url();
    ScriptedServer server([](const ReceivedRequest& request) {
        return request.method == "HEAD" ? Reply{403, {}, ""} : good(request);
    });
    const auto origin = open(server);
    ASSERT_TRUE(origin->check());
    EXPECT_EQ(origin->stat("denied").error().code, EACCES);
    EXPECT_EQ(origin->stat("denied").error().code, EACCES);
    EXPECT_EQ(*read(*origin), kContent);
    EXPECT_EQ(keys.count(), 1U);
    EXPECT_EQ(origin->stats().head, 2U);
}

TEST_F(S3OriginFailure, ARefusalWithoutReasonRenewsCredentialsThatHaveNotWorkedYet) {
    ScriptedServer keys(numbered_keys());
    settings_.s3_anonymous = false;
    environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = keys.url();
    ScriptedServer server([](const ReceivedRequest& request) {
        return used_key(request, "K0") ? Reply{403, {}, ""} : good(request);
    });
    EXPECT_EQ(*read(*open(server)), kContent);
    EXPECT_EQ(keys.count(), 2U);
}

TEST_F(S3OriginFailure, AnExpiredTokenInHeadIsRenewedAlthoughItHasWorked) {
    ScriptedServer keys(numbered_keys());
    settings_.s3_anonymous = false;
    environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = keys.url();
    ScriptedServer server([](const ReceivedRequest& request) {
        return request.method == "HEAD" && used_key(request, "K0") ? Reply{400, {}, ""} : good(request);
    });
    const auto origin = open(server);
    ASSERT_TRUE(origin->check());
    EXPECT_TRUE(origin->stat("f"));
    EXPECT_EQ(keys.count(), 2U);
}

TEST_F(S3OriginFailure, ARevokedKeyIsRenewedAlthoughItHasWorked) {
    ScriptedServer keys(numbered_keys());
    settings_.s3_anonymous = false;
    environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = keys.url();
    std::atomic<bool> revoked{false};
    ScriptedServer server([&](const ReceivedRequest& request) {
        if (!revoked || !used_key(request, "K0")) return good(request);
        return request.method == "HEAD" ? Reply{403, {}, ""} : error(403, "InvalidAccessKeyId");
    });
    const auto origin = open(server);
    ASSERT_TRUE(origin->check());
    revoked = true;
    const auto found = origin->stat("f");
    EXPECT_TRUE(found) << found.error().message;
    EXPECT_EQ(keys.count(), 2U);
}

TEST_F(S3OriginFailure, ABucketThatIsNotFoundErasesNoNames) {
    ChangingReply list;
    ScriptedServer server([&](const ReceivedRequest& request) {
        return request.method == "HEAD" ? Reply{404, {}, ""} : list(request);
    });
    const auto origin = open(server);
    // The bucket is gone, an ingress has lost its backend.
    for (const auto& reply : {error(404, "NoSuchBucket"), Reply{404, {}, "default backend - 404"}}) {
        list.set(reply);
        EXPECT_EQ(origin->stat("f").error().code, EIO);
        EXPECT_THAT(origin->stat("f").error().message, HasSubstr("404"));
        EXPECT_EQ(origin->list("", "").error().code, EIO);
        EXPECT_EQ(origin->list("p", "").error().code, EIO);
        EXPECT_EQ(origin->list("p", "token").error().code, EIO);
    }
}

TEST_F(S3OriginFailure, WithoutCredentialsThePlacesAreNamed) {
    settings_.s3_anonymous = false;
    ScriptedServer server(good);
    const auto result = open(server)->check();
    EXPECT_EQ(result.error().code, EACCES);
    for (const char* place : {"AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent/.aws/config",
                              "AWS_CONTAINER_CREDENTIALS", "AWS_EC2_METADATA_DISABLED", "s3.anonymous"})
        EXPECT_THAT(result.error().message, HasSubstr(place));
    EXPECT_EQ(server.count(), 0U);
}

TEST_F(S3OriginFailure, StopEndsWhatIsUnderWay) {
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

TEST_F(S3OriginFailure, StopEndsWaitingForARepeatAndForCredentials) {
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

TEST_F(S3OriginFailure, CredentialsThatDoNotComeEndWithTheDeadline) {
    ScriptedServer server(good);
    ScriptedServer metadata([](const ReceivedRequest&) { return Reply{200, {}, "", How::stall}; });
    settings_.s3_anonymous = false;
    environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = metadata.url();
    const auto result = read(*open(server, 200ms));
    EXPECT_EQ(result.error().code, ETIMEDOUT);
    EXPECT_THAT(result.error().message, HasSubstr("credentials"));
}

}  // namespace origin_failure_test
}  // namespace tierfs
