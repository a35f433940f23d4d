#include "tests/unit/backends/s3/client/origin_fixture.hpp"

namespace tierfs {
namespace origin_test {

using namespace tierfs::test;
using testing::HasSubstr;

class S3Origin : public S3OriginTest {};

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

TEST_F(S3Origin, AServerThatCannotBeginBehindAKeyIsAskedByItsTokens) {
    for (const bool refuses : {false, true}) {
        ScriptedServer server([&](const ReceivedRequest& request) {
            if (request.target.find("continuation-token=t") != std::string::npos)
                return listing(contents("p/b"));
            if (refuses && request.target.find("start-after") != std::string::npos)
                return error(400, "NotImplemented");
            return listing("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>" +
                           contents("p/a"));
        });
        const auto origin = open(server);
        const auto first = origin->list("p", "");
        ASSERT_TRUE(first) << first.error().message;
        const auto second = origin->list("p", first->next);
        ASSERT_TRUE(second) << second.error().message;
        EXPECT_EQ(second->entries.at(0).name, "b");
        EXPECT_EQ(second->next, "");
    }
}

TEST_F(S3Origin, ARepeatedTokenIsNoEndlessListing) {
    ScriptedServer server([](const ReceivedRequest&) {
        return listing("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>");
    });
    const auto origin = open(server);
    EXPECT_EQ(origin->list("", "")->next, "t");
    EXPECT_EQ(origin->list("", "t").error().code, EIO);
}

TEST_F(S3Origin, AnEmptyTruncatedPageDoesNotMeanNothing) {
    // A server that passes over deleted keys: the page's limit is reached before a living one.
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.method == "HEAD") return error(404, "NoSuchKey");
        if (request.target.find("continuation-token=t2") != std::string::npos)
            return listing(contents("p/dir/x"));
        const bool second = request.target.find("continuation-token=t1") != std::string::npos;
        return listing("<IsTruncated>true</IsTruncated><NextContinuationToken>" +
                       std::string(second ? "t2" : "t1") + "</NextContinuationToken>");
    });
    settings_.source = "s3://bkt/p";
    const auto origin = open(server);
    const auto checked = origin->check();
    EXPECT_TRUE(checked) << checked.error().message;
    const auto directory = origin->stat("dir");
    ASSERT_TRUE(directory) << directory.error().message;
    EXPECT_EQ(directory->kind, ObjectKind::directory);
    int continued = 0;
    for (const auto& request : server.requests()) {
        if (request.target.find("continuation-token=") == std::string::npos) continue;
        const char* const prefix = ++continued <= 2 ? "prefix=p%2F" : "prefix=p%2Fdir%2F";
        EXPECT_THAT(request.target, testing::EndsWith(prefix));
    }
    EXPECT_EQ(continued, 4);
}

TEST_F(S3Origin, TruncatedPagesThatEndInNothingAreNoDirectory) {
    ScriptedServer server([](const ReceivedRequest& request) {
        if (request.target.find("list-type=2") == std::string::npos) return good(request);
        if (request.target.find("continuation-token=t") != std::string::npos) return listing("");
        return listing("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>");
    });
    const auto origin = open(server);
    EXPECT_EQ(origin->stat("f")->kind, ObjectKind::file);
    EXPECT_EQ(origin->stat("none").error().code, ENOENT);
    ScriptedServer circling([](const ReceivedRequest& request) {
        if (request.method == "HEAD") return error(404, "NoSuchKey");
        return listing("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>");
    });
    EXPECT_EQ(open(circling)->stat("none").error().code, EIO);
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
    EXPECT_THAT(result.error().message, HasSubstr("(the secret key is not that of the access key)"));
    reply.set(error(403, "InvalidAccessKeyId"));
    result = open(server)->check();
    EXPECT_EQ(result.error().code, EACCES);
    EXPECT_THAT(result.error().message, HasSubstr("403 InvalidAccessKeyId: said so"));
    EXPECT_THAT(result.error().message, HasSubstr("(the service does not know the access key)"));
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

}  // namespace origin_test
}  // namespace tierfs
