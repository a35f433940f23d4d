// A bucket with one object behind a scripted server, for tests of the S3 origin.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "backends/s3/s3_origin.hpp"
#include "tests/unit/backends/http/scripted_server.hpp"

namespace tierfs::test {

using namespace std::chrono_literals;

inline constexpr const char* kContent = "0123456789abcdef";

inline Reply error(int status, const std::string& code, const std::string& message = "said so") {
    return {status, {}, "<Error><Code>" + code + "</Code><Message>" + message + "</Message></Error>"};
}

inline Reply listing(const std::string& inside) {
    return {200, {}, "<ListBucketResult><EncodingType>url</EncodingType>" + inside + "</ListBucketResult>"};
}

inline std::string contents(const std::string& key) {
    return "<Contents><Key>" + key + "</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>" +
           "<ETag>&quot;e&quot;</ETag><Size>16</Size></Contents>";
}

/// A bucket with the one object "f" of kContent.
inline Reply good(const ReceivedRequest& request) {
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

class S3OriginTest : public testing::Test {
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

}  // namespace tierfs::test
