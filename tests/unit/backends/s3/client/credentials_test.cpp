#include "backends/s3/client/credentials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "backends/s3/client/credential_chain.hpp"
#include "tests/unit/backends/http/scripted_server.hpp"

namespace tierfs::s3 {
namespace credentials_test {

using namespace std::chrono_literals;
using test::ChangingReply;
using test::Gate;
using test::How;
using test::ReceivedRequest;
using test::Reply;
using test::ScriptedServer;
using testing::HasSubstr;
using testing::Not;

std::string iso_time(std::chrono::seconds from_now) {
    const std::time_t when = std::time(nullptr) + from_now.count();
    std::tm utc{};
    ::gmtime_r(&when, &utc);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text.data();
}

Reply json(const std::string& key, std::chrono::seconds lifetime = 3600s) {
    return {200,
            {},
            "{\"Code\":\"Success\",\"AccessKeyId\":\"" + key +
                "\",\"SecretAccessKey\":\"SK\",\"Token\":\"T\",\"Expiration\":\"" + iso_time(lifetime) +
                "\"}"};
}

Reply sts(const std::string& key) {
    return {200,
            {},
            "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult>"
            "<Credentials><AccessKeyId>" +
                key +
                "</AccessKeyId><SecretAccessKey>SK</SecretAccessKey>"
                "<SessionToken>T</SessionToken><Expiration>" +
                iso_time(3600s) + "</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"};
}

class S3Credentials : public testing::Test {
  protected:
    S3Credentials() {
        std::string pattern = std::filesystem::temp_directory_path() / "tierfs-credentials-XXXXXX";
        folder_ = ::mkdtemp(pattern.data());
        options_.region = "us-east-1";
        options_.service_timeout = 5s;
        options_.environment = {
            {"HOME", folder_}, {"AWS_EC2_METADATA_DISABLED", "true"}, {"PATH", "/usr/bin:/bin"}};
    }
    ~S3Credentials() override { std::filesystem::remove_all(folder_); }

    std::string write(const std::string& name, const std::string& text) {
        const auto path = folder_ + "/" + name;
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        std::ofstream(path) << text;
        return path;
    }

    Result<ResolvedCredentials> resolve() { return resolve_credentials(options_, engine_, stopping_); }
    std::string key() {
        const auto found = resolve();
        return found ? found->credentials.access_key : found.error().message;
    }
    std::string& env(const std::string& name) { return options_.environment[name]; }

    static Result<Credentials> get(CredentialProvider& provider) {
        Gate gate;
        Result<Credentials> result;
        provider.get([&](Result<Credentials> credentials) {
            result = std::move(credentials);
            gate.open();
        });
        EXPECT_TRUE(gate.wait());
        return result;
    }

    std::string folder_;
    CredentialOptions options_;
    http::Engine engine_{http::EngineOptions{}};
    std::atomic<bool> stopping_{false};
};

TEST_F(S3Credentials, TheEnvironmentComesFirst) {
    env("AWS_ACCESS_KEY_ID") = "EK";
    env("AWS_SECRET_ACCESS_KEY") = "ES";
    env("AWS_SESSION_TOKEN") = "ET";
    write(".aws/credentials", "[default]\naws_access_key_id=FK\naws_secret_access_key=FS\n");
    const auto found = resolve();
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->credentials, (Credentials{"EK", "ES", "ET"}));
    EXPECT_FALSE(found->expiry);
    options_.profile = "default";
    EXPECT_EQ(key(), "FK") << "a profile that was asked for is used";
}

TEST_F(S3Credentials, HalfAKeyIsAnError) {
    env("AWS_ACCESS_KEY_ID") = "EK";
    EXPECT_THAT(key(), HasSubstr("AWS_SECRET_ACCESS_KEY"));
}

TEST_F(S3Credentials, ProfilesFromBothFiles) {
    write("c", "[other]\naws_access_key_id=A\naws_secret_access_key=S\n");
    write("f", "[profile other]\nregion=x\n");
    env("AWS_SHARED_CREDENTIALS_FILE") = folder_ + "/c";
    env("AWS_CONFIG_FILE") = folder_ + "/f";
    env("AWS_PROFILE") = "other";
    EXPECT_EQ(key(), "A");
    env("AWS_PROFILE") = "missing";
    EXPECT_THAT(key(), HasSubstr("profile 'missing'"));
}

TEST_F(S3Credentials, WebIdentityAsksSts) {
    ScriptedServer server([](const ReceivedRequest&) { return sts("WK"); });
    env("AWS_ENDPOINT_URL_STS") = server.url();
    env("AWS_WEB_IDENTITY_TOKEN_FILE") = write("token", "jwt+/=\n");
    env("AWS_ROLE_ARN") = "arn:aws:iam::1:role/r";
    const auto found = resolve();
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->credentials, (Credentials{"WK", "SK", "T"}));
    EXPECT_TRUE(found->expiry);
    const auto seen = server.requests().at(0);
    EXPECT_EQ(seen.method, "POST");
    EXPECT_THAT(seen.body, HasSubstr("Action=AssumeRoleWithWebIdentity"));
    EXPECT_THAT(seen.body, HasSubstr("WebIdentityToken=jwt%2B%2F%3D"));
    EXPECT_EQ(seen.headers.count("authorization"), 0U);
}

TEST_F(S3Credentials, StsErrorsAreToldWithoutTheToken) {
    ScriptedServer server([](const ReceivedRequest&) {
        return Reply{
            403,
            {},
            "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"};
    });
    env("AWS_ENDPOINT_URL_STS") = server.url();
    env("AWS_WEB_IDENTITY_TOKEN_FILE") = write("token", "verysecret");
    env("AWS_ROLE_ARN") = "arn";
    const auto found = resolve();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, EACCES);
    EXPECT_THAT(found.error().message, HasSubstr("403 AccessDenied: no"));
    EXPECT_THAT(found.error().message, Not(HasSubstr("verysecret")));
}

TEST_F(S3Credentials, RolesAreAssumedWithTheSourcesKey) {
    ScriptedServer server([](const ReceivedRequest&) { return sts("RK"); });
    env("AWS_ENDPOINT_URL_STS") = server.url();
    write(".aws/config",
          "[default]\nrole_arn=arn:r\nsource_profile=base\nexternal_id=x\n"
          "[profile base]\naws_access_key_id=BK\naws_secret_access_key=BS\n");
    EXPECT_EQ(key(), "RK");
    const auto seen = server.requests().at(0);
    EXPECT_THAT(seen.header("authorization"), HasSubstr("Credential=BK/"));
    EXPECT_THAT(seen.header("authorization"), HasSubstr("/us-east-1/sts/aws4_request"));
    EXPECT_THAT(seen.body, HasSubstr("ExternalId=x"));
}

TEST_F(S3Credentials, CirclesOfProfilesEnd) {
    write(".aws/config",
          "[default]\nrole_arn=r\nsource_profile=a\n[profile a]\nrole_arn=r\nsource_profile=b\n"
          "[profile b]\nrole_arn=r\nsource_profile=a\n");
    EXPECT_THAT(key(), HasSubstr("circle"));
    write(".aws/config", "[default]\nrole_arn=r\nsource_profile=default\n");
    EXPECT_THAT(key(), HasSubstr("circle"));
    write(".aws/config", "[default]\nrole_arn=r\n");
    EXPECT_THAT(key(), HasSubstr("credential_source"));
}

TEST_F(S3Credentials, AProcessIsRunWithoutAShell) {
    write("out.json", R"({"Version":1,"AccessKeyId":"PK","SecretAccessKey":"PS","SessionToken":"PT"})");
    write(".aws/config", "[default]\ncredential_process = cat '" + folder_ + "/out.json'\n");
    EXPECT_EQ(key(), "PK");
    write(".aws/config", "[default]\ncredential_process = echo $(cat " + folder_ + "/out.json)\n");
    EXPECT_THAT(key(), HasSubstr("no JSON object"));
    write(".aws/config", "[default]\ncredential_process = false\n");
    EXPECT_THAT(key(), HasSubstr("status 1"));
    write(".aws/config", "[default]\ncredential_process = /nonexistent/program\n");
    EXPECT_THAT(key(), HasSubstr("/nonexistent/program"));
}

TEST_F(S3Credentials, AProcessInheritsNoDescriptors) {
    constexpr int kNumber = 200;  // as libcurl's sockets: not close-on-exec
    ASSERT_EQ(::dup2(STDERR_FILENO, kNumber), kNumber);
    const auto script =
        write("fds.sh",
              "key=CLEAN; [ -e /proc/$$/fd/200 ] && key=INHERITED\n"
              "echo '{\"Version\":1,\"AccessKeyId\":\"'$key'\",\"SecretAccessKey\":\"S\"}'\n");
    write(".aws/config", "[default]\ncredential_process = /bin/sh '" + script + "'\n");
    EXPECT_EQ(key(), "CLEAN");
    ::close(kNumber);
}

TEST_F(S3Credentials, AProcessIsBounded) {
    options_.process_timeout = 200ms;
    write(".aws/config", "[default]\ncredential_process = sleep 1000\n");
    EXPECT_THAT(key(), HasSubstr("did not end"));
    options_.process_timeout = 20s;
    write(".aws/config", "[default]\ncredential_process = yes secret\n");
    EXPECT_THAT(key(), HasSubstr("more than 64 KiB"));
    stopping_ = true;
    write(".aws/config", "[default]\ncredential_process = sleep 1000\n");
    EXPECT_FALSE(resolve());
}

TEST_F(S3Credentials, ContainersAreAskedWithTheirToken) {
    ScriptedServer server([](const ReceivedRequest& request) {
        return request.header("authorization") == "proof" ? json("CK") : Reply{401, {}, ""};
    });
    env("AWS_CONTAINER_CREDENTIALS_FULL_URI") = server.url() + "/v2/x?y=z";
    env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") = write("token", "proof\n");
    EXPECT_EQ(key(), "CK");
    EXPECT_EQ(server.requests().at(0).target, "/v2/x?y=z");
    env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") = "";
    env("AWS_CONTAINER_AUTHORIZATION_TOKEN") = "proof";
    EXPECT_EQ(key(), "CK");
    env("AWS_CONTAINER_AUTHORIZATION_TOKEN") = "a\r\nX: y";
    EXPECT_THAT(key(), HasSubstr("line break"));
    options_.default_container = server.url();
    env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") = "/rel";
    env("AWS_CONTAINER_AUTHORIZATION_TOKEN") = "proof";
    EXPECT_EQ(key(), "CK");
    EXPECT_EQ(server.requests().back().target, "/rel");
}

TEST_F(S3Credentials, ContainerTokensGoNowhereInClearText) {
    for (const char* url : {"http://example.com/x", "http://10.0.0.1/x", "http://127.0.0.1.example.com/"}) {
        env("AWS_CONTAINER_CREDENTIALS_FULL_URI") = url;
        EXPECT_THAT(key(), HasSubstr("http:// is allowed")) << url;
    }
}

TEST_F(S3Credentials, InstancesAreAskedWithASession) {
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.method == "PUT" && request.target == "/latest/api/token")
            return Reply{200, {}, "session"};
        if (request.header("x-aws-ec2-metadata-token") != "session") return Reply{401, {}, ""};
        if (request.target.ends_with("/security-credentials/")) return Reply{200, {}, "my-role\n"};
        return request.target.ends_with("/my-role") ? json("IK") : Reply{404, {}, ""};
    });
    env("AWS_EC2_METADATA_DISABLED") = "false";
    env("AWS_EC2_METADATA_SERVICE_ENDPOINT") = server.url() + "/";
    EXPECT_EQ(key(), "IK");
    EXPECT_EQ(server.requests().at(0).header("x-aws-ec2-metadata-token-ttl-seconds"), "21600");
}

TEST_F(S3Credentials, AnInstanceThatDoesNotAnswerIsSoonGivenUp) {
    ScriptedServer server([](const ReceivedRequest&) { return Reply{200, {}, "", How::stall}; });
    env("AWS_EC2_METADATA_DISABLED") = "false";
    env("AWS_EC2_METADATA_SERVICE_ENDPOINT") = server.url();
    options_.imds_timeout = 100ms;
    EXPECT_THAT(key(), HasSubstr("instance metadata at " + server.url()));
}

TEST_F(S3Credentials, GarbageFromServicesIsAnErrorWithoutQuotation) {
    ChangingReply reply;
    ScriptedServer server(std::ref(reply));
    env("AWS_CONTAINER_CREDENTIALS_FULL_URI") = server.url();
    for (const std::string body :
         {"", "SECRET", "[]", "{}", "{\"AccessKeyId\":1}", "null",
          "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"SECRET\",\"Expiration\":\"later\"}"}) {
        reply.set({200, {}, body});
        const auto found = resolve();
        ASSERT_FALSE(found) << body;
        EXPECT_THAT(found.error().message, Not(HasSubstr("SECRET")));
    }
    reply.set({200, {}, std::string(1 << 20, '[')});
    EXPECT_FALSE(resolve());
}

TEST_F(S3Credentials, TheProviderAsksOnceForAll) {
    ScriptedServer server([](const ReceivedRequest&) { return json("CK"); });
    env("AWS_CONTAINER_CREDENTIALS_FULL_URI") = server.url();
    CredentialProvider provider(options_, engine_);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(get(provider)->access_key, "CK");
    EXPECT_EQ(server.count(), 1U);
}

TEST_F(S3Credentials, WhatExpiresSoonIsRenewedInTheBackground) {
    ScriptedServer server([](const ReceivedRequest&) { return json("CK", 3s); });
    env("AWS_CONTAINER_CREDENTIALS_FULL_URI") = server.url();
    CredentialProvider provider(options_, engine_);
    EXPECT_TRUE(get(provider));
    EXPECT_TRUE(server.wait_for_requests(2)) << "nobody asked again, and still it was renewed";
}

TEST_F(S3Credentials, ARefusedKeyIsRenewedButNotForEver) {
    ScriptedServer server(
        [n = 0](const ReceivedRequest&) mutable { return json("K" + std::to_string(n++)); });
    env("AWS_CONTAINER_CREDENTIALS_FULL_URI") = server.url();
    CredentialProvider provider(options_, engine_);
    const auto first = *get(provider);
    EXPECT_EQ(first.access_key, "K0");
    EXPECT_TRUE(provider.reject(first));
    EXPECT_TRUE(provider.reject(first)) << "the second who was refused waits for the same renewal";
    const auto second = *get(provider);
    EXPECT_EQ(second.access_key, "K1");
    EXPECT_TRUE(provider.reject(first)) << "a newer key is there already";
    EXPECT_FALSE(provider.reject(second)) << "just renewed: another would be refused as well";
    EXPECT_EQ(server.count(), 2U);
}

TEST_F(S3Credentials, ARefusedKeyIsKeptWhenNoOtherCanBeHad) {
    ChangingReply reply;
    reply.set(json("K0"));
    ScriptedServer server(std::ref(reply));
    env("AWS_CONTAINER_CREDENTIALS_FULL_URI") = server.url();
    CredentialProvider provider(options_, engine_);
    const auto first = *get(provider);
    reply.set({403, {}, ""});
    EXPECT_TRUE(provider.reject(first));
    EXPECT_EQ(get(provider)->access_key, "K0");
    EXPECT_EQ(server.count(), 2U);
}

TEST_F(S3Credentials, AFailureIsNotRepeatedForEachWhoAsks) {
    ScriptedServer server([](const ReceivedRequest&) { return Reply{403, {}, ""}; });
    env("AWS_CONTAINER_CREDENTIALS_FULL_URI") = server.url();
    CredentialProvider provider(options_, engine_);
    EXPECT_EQ(get(provider).error().code, EACCES);
    const auto asked = server.count();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(get(provider).error().code, EACCES);
    EXPECT_LE(server.count(), asked + 1);
}

TEST_F(S3Credentials, StopWhileAServiceStalls) {
    ScriptedServer server([](const ReceivedRequest&) { return Reply{200, {}, "", How::stall}; });
    env("AWS_CONTAINER_CREDENTIALS_FULL_URI") = server.url();
    options_.service_timeout = 1h;
    CredentialProvider provider(options_, engine_);
    std::atomic<int> code{0};
    provider.get([&](const Result<Credentials>& result) { code = result.error().code; });
    ASSERT_TRUE(server.wait_for_requests(1));
    provider.begin_stop();
    engine_.stop();
    provider.stop();
    EXPECT_EQ(code, ECANCELED);
    EXPECT_EQ(get(provider).error().code, ECANCELED);
}

}  // namespace credentials_test
}  // namespace tierfs::s3
