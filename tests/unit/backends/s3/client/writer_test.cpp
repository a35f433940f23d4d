#include "backends/s3/client/writer.hpp"

#include "tests/unit/backends/s3/client/fake_bucket.hpp"
#include "tests/unit/backends/s3/client/origin_fixture.hpp"

namespace tierfs {
namespace writer_test {

using namespace tierfs::test;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

std::string md5(const std::string& text) {
    return md5_hex(bytes_of(text)).value();
}

class S3Writer : public S3OriginTest {
  protected:
    S3Writer() { settings_.source = "s3://bkt/pre"; }

    void serve() {
        server_ = std::make_unique<ScriptedServer>(bucket_.handler());
        origin_ = open(*server_, deadline_);
        writer_ = origin_->writable();
        ASSERT_NE(writer_, nullptr);
    }

    /// The first `times` requests of this kind are answered so.
    void fail_first(int times, const std::string& method, const std::string& part, Reply reply) {
        bucket_.set_fault([=, left = times](const ReceivedRequest& request) mutable -> std::optional<Reply> {
            if (request.method != method || request.target.find(part) == std::string::npos || left-- <= 0)
                return std::nullopt;
            return reply;
        });
    }

    Result<Written> write_in_parts(const std::string& path, const std::vector<std::string>& pieces,
                                   const PutOptions& options = {}) {
        const auto upload = writer_->begin(path, options);
        if (!upload) return fail(upload.error());
        std::vector<UploadPart> parts(pieces.size());
        std::uint64_t offset = 0;
        std::vector<std::uint64_t> offsets;
        for (const auto& piece : pieces) {
            offsets.push_back(offset);
            offset += piece.size();
        }
        for (std::size_t i = pieces.size(); i-- > 0;) {  // in another order than they have
            auto part = writer_->part(*upload, static_cast<unsigned>(i + 1), offsets[i], bytes_of(pieces[i]));
            if (!part) return fail(part.error());
            parts[i] = *part;
        }
        return writer_->complete(*upload, parts, options);
    }

    std::chrono::milliseconds deadline_ = 20s;
    FakeBucket bucket_;
    std::unique_ptr<ScriptedServer> server_;
    std::unique_ptr<Origin> origin_;
    WritableOrigin* writer_ = nullptr;
};

TEST_F(S3Writer, PutsASmallObjectWithItsChecksumAndAttributes) {
    serve();
    PutOptions options;
    options.attributes = FileAttributes{0640, 1000, 100, 1'700'000'000'123'456'789};
    const auto written = writer_->put("a b", bytes_of("hello"), options);
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(written->checksum, md5("hello"));
    EXPECT_EQ(written->version, '"' + md5("hello") + '"');
    const auto object = bucket_.objects().at("pre/a b");
    EXPECT_EQ(object.body, "hello");
    EXPECT_EQ(object.headers.at("x-amz-meta-mode"), "33184");  // S_IFREG | 0640
    EXPECT_EQ(object.headers.at("x-amz-meta-uid"), "1000");
    EXPECT_EQ(object.headers.at("x-amz-meta-gid"), "100");
    EXPECT_EQ(object.headers.at("x-amz-meta-mtime"), "1700000000.123456789");
    EXPECT_EQ(object.headers.at("content-type"), "application/octet-stream");
    EXPECT_EQ(origin_->stats().put, 1U);
    EXPECT_EQ(origin_->stats().bytes_written, 5U);
}

TEST_F(S3Writer, PutsAnEmptyObject) {
    serve();
    ASSERT_TRUE(writer_->put("empty", {}, {}));
    EXPECT_EQ(bucket_.objects().at("pre/empty").body, "");
}

TEST_F(S3Writer, SignsThePayloadOverPlainHttp) {
    settings_.s3_anonymous = false;
    environment_["AWS_ACCESS_KEY_ID"] = "key";
    environment_["AWS_SECRET_ACCESS_KEY"] = "secret";
    serve();
    ASSERT_TRUE(writer_->put("f", bytes_of("hello"), {}));
    const auto request = server_->requests().front();
    EXPECT_EQ(request.header("x-amz-content-sha256"), s3::sha256_hex("hello"));
    EXPECT_THAT(request.header("authorization"), HasSubstr("content-md5;content-type;host;"));
}

TEST_F(S3Writer, SendsLargeBodiesWhole) {
    serve();
    std::string large(3U << 20, 'x');
    for (std::size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>('a' + i / 1000 % 26);
    const auto written = writer_->put("large", bytes_of(large), {});
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(bucket_.objects().at("pre/large").body, large);
}

TEST_F(S3Writer, RepeatsFailuresThatPass) {
    for (const auto& reply : {error(503, "SlowDown"), error(500, "InternalError"), error(400, "BadDigest"),
                              error(409, "OperationAborted"), Reply{200, {}, "", How::reset}}) {
        fail_first(2, "PUT", "/f", reply);
        serve();
        ASSERT_TRUE(writer_->put("f", bytes_of("hello"), {})) << reply.status;
        EXPECT_EQ(bucket_.objects().at("pre/f").body, "hello");
    }
}

TEST_F(S3Writer, RefusalsAreToldAndNotRepeated) {
    const std::vector<std::pair<Reply, int>> refusals{
        {error(403, "AccessDenied"), EACCES},       {error(403, "QuotaExceeded"), EDQUOT},
        {error(400, "EntityTooLarge"), EFBIG},      {error(400, "KeyTooLongError"), ENAMETOOLONG},
        {error(501, "NotImplemented"), EOPNOTSUPP}, {error(409, "InvalidBucketState"), EBUSY},
        {error(404, "NoSuchBucket"), EIO}};
    for (const auto& [reply, code] : refusals) {
        fail_first(100, "PUT", "/f", reply);
        serve();
        const auto written = writer_->put("f", bytes_of("hello"), {});
        ASSERT_FALSE(written);
        EXPECT_EQ(written.error().code, code) << written.error().message;
        EXPECT_THAT(written.error().message, HasSubstr("PUT s3://bkt/pre/f"));
        EXPECT_EQ(server_->count(), 1U);
    }
}

TEST_F(S3Writer, ConditionsAreKept) {
    bucket_.put("pre/f", "old");
    serve();
    PutOptions exclusive, pinned;
    exclusive.only_if_absent = true;
    EXPECT_EQ(writer_->put("f", bytes_of("new"), exclusive).error().code, EEXIST);
    EXPECT_TRUE(writer_->put("g", bytes_of("new"), exclusive));
    pinned.only_if_version = "\"other\"";
    EXPECT_EQ(writer_->put("f", bytes_of("new"), pinned).error().code, ESTALE);
    pinned.only_if_version = '"' + md5("old") + '"';
    EXPECT_TRUE(writer_->put("f", bytes_of("new"), pinned));
    EXPECT_EQ(write_in_parts("f", {"a", "b"}, exclusive).error().code, EEXIST);
    EXPECT_EQ(write_in_parts("f", {"a", "b"}, pinned).error().code, ESTALE);
    EXPECT_EQ(bucket_.objects().at("pre/f").body, "new");
    pinned.only_if_version = '"' + md5("new") + '"';
    EXPECT_TRUE(write_in_parts("f", {"a", "b"}, pinned));
    EXPECT_EQ(write_in_parts("none", {"a", "b"}, pinned).error().code, ESTALE);
}

TEST_F(S3Writer, ServerThatDoesNotKnowConditionsIsNamed) {
    PutOptions exclusive;
    exclusive.only_if_absent = true;
    for (const auto& reply : {error(501, "NotImplemented"), error(400, "InvalidArgument")}) {
        fail_first(100, "PUT", "/f", reply);
        serve();
        EXPECT_THAT(writer_->put("f", bytes_of("hello"), exclusive).error().message,
                    HasSubstr("If-None-Match"));
        EXPECT_THAT(writer_->put("f", bytes_of("hello"), {}).error().message,
                    testing::Not(HasSubstr("If-None-Match")));
    }
}

TEST_F(S3Writer, PartsBecomeOneObject) {
    serve();
    PutOptions options;
    options.attributes = FileAttributes{};
    const auto written = write_in_parts("f", {"one ", "two ", "three"}, options);
    ASSERT_TRUE(written) << written.error().message;
    const auto object = bucket_.objects().at("pre/f");
    EXPECT_EQ(object.body, "one two three");
    EXPECT_EQ(object.headers.at("x-amz-meta-mode"), "33188");
    EXPECT_EQ('"' + written->checksum + '"', object.etag);
    EXPECT_TRUE(written->checksum.ends_with("-3"));
    EXPECT_EQ(written->size, 13U);
    EXPECT_EQ(bucket_.uploads(), 0U);
}

TEST_F(S3Writer, AFailureInTheBodyOfAGoodReplyIsRepeated) {
    fail_first(2, "POST", "uploadId", {200, {}, "  \n<Error><Code>InternalError</Code></Error>"});
    serve();
    const auto written = write_in_parts("f", {"one", "two"});
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(bucket_.objects().at("pre/f").body, "onetwo");
}

TEST_F(S3Writer, AFinalFailureInTheBodyIsTold) {
    fail_first(100, "POST", "uploadId", {200, {}, "<Error><Code>InvalidPart</Code></Error>"});
    serve();
    const auto written = write_in_parts("f", {"one", "two"});
    ASSERT_FALSE(written);
    EXPECT_THAT(written.error().message, HasSubstr("InvalidPart"));
    EXPECT_FALSE(bucket_.objects().contains("pre/f"));
}

TEST_F(S3Writer, ACompletionWhoseReplyWasLostIsFound) {
    // The server completes, and says that it failed: the repeat finds no upload any more.
    bucket_.set_fault([this, done = false](const ReceivedRequest& request) mutable -> std::optional<Reply> {
        if (done || request.method != "POST" || request.target.find("uploadId") == std::string::npos)
            return std::nullopt;
        done = true;
        bucket_.handler()(request);
        return error(500, "InternalError");
    });
    serve();
    const auto written = write_in_parts("f", {"one", "two"});
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(bucket_.objects().at("pre/f").body, "onetwo");
}

TEST_F(S3Writer, AnUploadThatIsGoneIsNotTakenForAnotherObject) {
    bucket_.put("pre/f", "somebody else's");
    serve();
    const auto upload = writer_->begin("f", {});
    ASSERT_TRUE(upload);
    const auto part = writer_->part(*upload, 1, 0, bytes_of("mine"));
    ASSERT_TRUE(part);
    ASSERT_TRUE(writer_->abort(*upload));
    EXPECT_EQ(writer_->complete(*upload, std::span(&*part, 1), {}).error().code, ENOENT);
    EXPECT_EQ(writer_->part(*upload, 1, 0, bytes_of("mine")).error().code, ENOENT);
    EXPECT_EQ(writer_->parts(*upload, 4).error().code, ENOENT);
    EXPECT_TRUE(writer_->abort(*upload));
}

TEST_F(S3Writer, PartsAreListedOverPages) {
    serve();
    const auto upload = writer_->begin("f", {});
    ASSERT_TRUE(upload);
    for (unsigned number : {1U, 2U, 3U, 5U, 7U})
        ASSERT_TRUE(writer_->part(*upload, number, 0, bytes_of(std::string(number, 'x'))));
    const auto parts = writer_->parts(*upload, 1);
    ASSERT_TRUE(parts) << parts.error().message;
    ASSERT_EQ(parts->size(), 5U);
    EXPECT_EQ(parts->back().number, 7U);
    EXPECT_EQ(parts->back().size, 7U);
    EXPECT_EQ(parts->back().checksum, md5("xxxxxxx"));
}

TEST_F(S3Writer, PendingUploadsOfAPathAreFound) {
    serve();
    const auto upload = writer_->begin("f%", {});
    ASSERT_TRUE(upload && writer_->begin("f%2", {}));
    const auto pending = writer_->pending("f%");
    ASSERT_TRUE(pending) << pending.error().message;
    ASSERT_EQ(pending->size(), 1U);
    EXPECT_EQ(pending->front().upload, *upload);
    EXPECT_GT(pending->front().begun_s, 0);
}

TEST_F(S3Writer, LooksAndRemoves) {
    bucket_.put("pre/f", "hello");
    serve();
    EXPECT_EQ(writer_->stat_file("f")->size, 5U);
    EXPECT_EQ(*writer_->checksum("f", 0), md5("hello"));
    EXPECT_TRUE(writer_->remove("f"));
    EXPECT_TRUE(writer_->remove("f"));
    EXPECT_EQ(writer_->stat_file("f").error().code, ENOENT);
    EXPECT_EQ(origin_->stats().remove, 2U);
}

TEST_F(S3Writer, ABodyMayTakeLongerThanTheDeadlineButAServerThatIsAwayMayNot) {
    fail_first(1000000, "PUT", "/f", error(503, "SlowDown"));
    deadline_ = 300ms;
    serve();
    const std::string large(4U << 20, 'x');  // 16 s at the slowest rate
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(writer_->put("f", bytes_of(large), {}).error().code, ETIMEDOUT);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
}

TEST_F(S3Writer, HostileRepliesAreRefused) {
    for (const std::string body : {"", "<a>", "<ListPartsResult><Part/></ListPartsResult>",
                                   "<!DOCTYPE x [<!ENTITY a 'b'>]><ListPartsResult/>",
                                   "<ListPartsResult><IsTruncated>true</IsTruncated></ListPartsResult>",
                                   "<ListPartsResult><IsTruncated>true</IsTruncated><NextPartNumberMarker>1"
                                   "</NextPartNumberMarker></ListPartsResult>"}) {
        fail_first(1000000, "GET", "uploadId", {200, {}, body});
        serve();
        EXPECT_EQ(writer_->parts({"f", "id"}, 1).error().code, EIO) << body;
    }
    fail_first(1, "POST", "uploads", {200, {}, "<x/>"});
    serve();
    EXPECT_EQ(writer_->begin("f", {}).error().code, EIO);
}

}  // namespace writer_test
}  // namespace tierfs
