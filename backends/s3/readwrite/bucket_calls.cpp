#include "backends/s3/readwrite/bucket_calls.hpp"

#include <algorithm>
#include <cerrno>

#include "backends/s3/client/base64.hpp"
#include "backends/s3/client/condition.hpp"
#include "backends/s3/client/head.hpp"
#include "backends/s3/client/sigv4.hpp"
#include "backends/s3/client/upload_xml.hpp"
#include "config/base/delivery.hpp"
#include "config/base/hex.hpp"
#include "config/base/units.hpp"

namespace tierfs::s3 {
namespace {

constexpr std::uint64_t kSlowestBytesPerSecond = 256U << 10U;
constexpr std::uint64_t kSlowestCopyPerSecond = 16 * kMiB;  // inside the store
// A server that has all of a body may sync disks before it answers; one that copies says nothing meanwhile.
constexpr std::chrono::milliseconds kSilenceAfterBody{60000}, kSilenceOfCopy{120000};
constexpr std::uint64_t kPartOfCopy = 256 * kMiB;
constexpr std::size_t kPartsAtOnce = 16;
constexpr std::size_t kPiece = 128U << 10U;
constexpr unsigned kAttemptsAtRaces = 5;
constexpr unsigned kMostEmptyPages = 10'000;
constexpr const char* kPlain = "application/octet-stream";

/// Reads a local copy while it is sent.
class SliceBody final : public http::BodySource {
  public:
    explicit SliceBody(Slice slice) : slice_(std::move(slice)) {}
    [[nodiscard]] std::uint64_t size() const override { return slice_.end - slice_.begin; }
    bool read(std::uint64_t offset, std::span<std::byte> piece) override {
        return static_cast<bool>(slice_.copy->read(piece, slice_.begin + offset));
    }

  private:
    const Slice slice_;
};

Result<std::string> digest_of(const Slice& slice, DigestKind kind) {
    auto digest = BodyDigest::make(kind);
    if (!digest) return fail(std::move(digest.error()));
    std::vector<std::byte> piece(static_cast<std::size_t>(
        std::min<std::uint64_t>(kPiece, std::max<std::uint64_t>(slice.end - slice.begin, 1))));
    for (auto at = slice.begin; at < slice.end;) {
        const auto now = std::span(piece).first(
            static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), slice.end - at)));
        if (auto read = slice.copy->read(now, at); !read) return fail(std::move(read.error()));
        digest->add(now);
        at += now.size();
    }
    return digest->value();
}

/// Empty: the reply does not tell it.
std::string version_of_copy(const http::Response& response) {
    const auto etag = find_text(response.body, "ETag");
    return etag.empty() ? etag : make_version(etag, 0, 0);
}

/// Two such requests at once: S3 answers one with 409, Ceph's gateway with 404.
bool is_race_of(const Error& error, const PutOptions& condition) {
    return condition.only_if_absent && (error.code == ENOENT || error.code == EBUSY);
}

/// 412 is about the source here.
Error of_copy(Error error) {
    if (error.code == EEXIST) error.code = ESTALE;
    return error;
}

}  // namespace

bool Together::begin() {
    auto may = may_wait_for("requests to S3");
    MutexLock lock(mutex_);
    if (!may) result_ = std::move(may);
    while (running_ >= most_) lock.wait(ended_);
    if (!result_) return false;
    ++running_;
    return true;
}

void Together::end(Result<void> result) {
    const MutexLock lock(mutex_);
    --running_;
    if (!result && result_) result_ = std::move(result);
    ended_.notify_all();
}

Result<void> Together::wait() {
    MutexLock lock(mutex_);
    while (running_ != 0) lock.wait(ended_);
    return result_;
}

Operation BucketCalls::operation(RequestKind kind, const std::string& path) const {
    Operation operation;
    operation.kind = kind;
    operation.key = key(path);
    if (deadline_ != kForever) operation.deadline = http::Clock::now() + deadline_;
    return operation;
}

void BucketCalls::note_sealing(const http::Response& response) const {
    const bool sealed = response.header("x-amz-server-side-encryption").starts_with("aws:kms") ||
                        !response.header("x-amz-server-side-encryption-customer-algorithm").empty();
    if (sealed) is_sealed_->store(true, std::memory_order_relaxed);
}

bool BucketCalls::is_ours(const Facts& there, const FileMetadata& metadata, std::uint64_t size,
                          const std::string& md5) const {
    return there.metadata == metadata &&
           (there.version == '"' + md5 + '"' || (is_sealed() && there.size == size));
}

Result<Facts> BucketCalls::facts_of_head(const http::Response& response, bool is_marker) const {
    const auto attributes = attributes_of_head(response, ownership_);
    if (!attributes) return fail(attributes.error());
    note_sealing(response);
    Facts facts;
    facts.kind = is_marker ? Facts::Kind::directory : Facts::Kind::file;
    facts.has_marker = is_marker;
    facts.metadata = metadata_of_head(response, ownership_, is_marker);
    facts.keeps_mode = !response.header("x-amz-meta-mode").empty();
    facts.size = attributes->size;
    facts.version = attributes->version;
    facts.archived = attributes->archived;
    const auto tags = response.header("x-amz-tagging-count");
    facts.has_tags = !tags.empty() && tags != "0";
    return facts;
}

void BucketCalls::head(const std::string& path, std::function<void(Result<Facts>)> done) {
    auto made = operation(RequestKind::head, path);
    const bool is_marker = path.empty() || path.back() == '/';
    made.done = [this, is_marker, done = std::move(done)](const Result<http::Response>& response) {
        done(response ? facts_of_head(*response, is_marker) : fail(response.error()));
    };
    client_.start(std::move(made));
}

Result<Facts> BucketCalls::head(const std::string& path) {
    Together one(1);
    Result<Facts> found;
    if (!one.begin()) return fail(one.wait().error());
    head(path, [&](Result<Facts> facts) {
        found = std::move(facts);
        one.end({});
    });
    (void)one.wait();
    return found;
}

Result<Listing> BucketCalls::list(const std::string& path, const std::string& token, unsigned limit,
                                  bool delimited) {
    const auto ask = [&](const std::string& from) {
        return listed(client_.run(listing(path, from, limit, delimited)), from);
    };
    auto page = ask(token);
    for (unsigned passed = 0;
         page && page->objects.empty() && page->prefixes.empty() && !page->next_token.empty(); ++passed) {
        if (passed == kMostEmptyPages)
            return fail(EIO, "LIST s3://" + target_.bucket + ": the server sends nothing but empty pages");
        page = ask(page->next_token);
    }
    return page;
}

void BucketCalls::list(const std::string& path, const std::string& token, unsigned limit, bool delimited,
                       std::function<void(Result<Listing>)> done) {
    auto made = listing(path, token, limit, delimited);
    made.done = [this, token, done = std::move(done)](const Result<http::Response>& response) {
        done(listed(response, token));
    };
    client_.start(std::move(made));
}

Operation BucketCalls::listing(const std::string& path, const std::string& token, unsigned limit,
                               bool delimited) const {
    auto made = operation(RequestKind::list, "");
    made.key.clear();
    made.query = {{"list-type", "2"}, {"max-keys", std::to_string(limit)}, {"encoding-type", "url"}};
    if (!key(path).empty()) made.query.emplace_back("prefix", key(path));
    if (delimited) made.query.emplace_back("delimiter", "/");
    if (!token.empty()) made.query.emplace_back("continuation-token", token);
    return made;
}

Result<Listing> BucketCalls::listed(const Result<http::Response>& response, const std::string& token) const {
    // S3 lists an absent prefix as empty: see S3Origin::run_listing.
    if (!response)
        return fail(response.error().code == ENOENT ? EIO : response.error().code, response.error().message);
    auto listing = parse_listing(response->body);
    if (!listing) return fail(listing.error().within("LIST s3://" + target_.bucket));
    if (!token.empty() && listing->next_token == token)
        return fail(EIO, "LIST s3://" + target_.bucket + ": the server repeats its continuation token");
    return listing;
}

void BucketCalls::read(const std::string& path, const std::string& version, std::uint64_t offset,
                       std::span<std::byte> destination, std::function<void(Result<void>)> done) {
    if (destination.empty()) return done({});
    auto made = operation(RequestKind::get, path);
    made.version = version;
    made.offset = offset;
    made.destination = destination;
    made.done = [done = std::move(done)](const Result<http::Response>& response) {
        done(response ? Result<void>() : fail(response.error()));
    };
    client_.start(std::move(made));
}

Result<void> BucketCalls::read(const std::string& path, const std::string& version, std::uint64_t offset,
                               std::span<std::byte> destination) {
    Together one(1);
    if (!one.begin()) return one.wait();
    read(path, version, offset, destination, [&](Result<void> result) { one.end(std::move(result)); });
    return one.wait();
}

Result<Operation> BucketCalls::sending(const std::string& path, const Slice& slice) const {
    Result<std::string> digest = slice.digest;
    if (digest->empty()) digest = digest_of(slice, digest_kind());
    if (!digest) return fail(std::move(digest.error()));
    auto made = operation(RequestKind::put, path);
    if (slice.begin < slice.end) made.source = std::make_shared<SliceBody>(slice);
    if (digest_kind() == DigestKind::sha256) {
        made.payload_sha256 = to_hex(*digest);
    } else {
        made.payload_sha256 = "UNSIGNED-PAYLOAD";
        made.headers.emplace_back("Content-MD5", to_base64(*digest));
    }
    made.transfer_time = std::chrono::seconds((slice.end - slice.begin) / kSlowestBytesPerSecond);
    made.stall = kSilenceAfterBody;
    return made;
}

Result<std::string> BucketCalls::put(const std::string& path, const Slice& slice,
                                     const FileMetadata& metadata, const PutOptions& condition) {
    auto demanded = condition;
    for (unsigned attempt = 1;; ++attempt) {
        auto made = sending(path, slice);
        if (!made) return fail(std::move(made.error()));
        for (auto& header : metadata_headers(metadata)) made->headers.push_back(std::move(header));
        if (!metadata.tags.empty()) made->headers.emplace_back("x-amz-tagging", metadata.tags);
        add_condition(*made, demanded);
        auto response = client_.run(std::move(*made));
        if (response) return make_version(response->header("etag"), 0, slice.end - slice.begin);
        const bool is_race = is_race_of(response.error(), condition);
        if (response.error().code != EEXIST && !is_race)
            return fail(within_condition(response.error(), condition));
        const auto there = head(path);
        // Perhaps it is what an earlier attempt wrote, the reply to which was lost.
        const auto ours = digest_of(slice, DigestKind::md5);
        if (there && ours && is_ours(*there, metadata, slice.end - slice.begin, to_hex(*ours)))
            return there->version;
        if (is_race && there) return fail(EEXIST, path + " is there by now");
        if (is_race && attempt < kAttemptsAtRaces) continue;
        // Ceph's gateway takes the quotes of If-Match for a part of the ETag.
        const bool is_as_demanded = there && there->version == condition.only_if_version;
        if (attempt != 1 || !is_as_demanded) return fail(within_condition(response.error(), condition));
        demanded.only_if_version = unquoted(condition.only_if_version);
    }
}

Result<std::string> BucketCalls::put_text(const std::string& path, const std::string& text,
                                          const FileMetadata& metadata, const PutOptions& condition) {
    const auto bytes = std::as_bytes(std::span(text));
    const auto md5 = md5_hex(bytes);
    if (!md5) return fail(md5.error());
    const auto raw = from_hex(*md5);
    for (unsigned attempt = 1;; ++attempt) {
        auto made = operation(RequestKind::put, path);
        made.payload = bytes;
        made.payload_sha256 = target_.endpoint.tls ? "UNSIGNED-PAYLOAD" : sha256_hex(text);
        made.stall = kSilenceAfterBody;
        made.headers = metadata_headers(metadata);
        made.headers.emplace_back("Content-MD5",
                                  to_base64({reinterpret_cast<const char*>(raw.data()), raw.size()}));
        add_condition(made, condition);
        const auto response = client_.run(std::move(made));
        if (response) return make_version(response->header("etag"), 0, text.size());
        const bool is_race = is_race_of(response.error(), condition);
        if (response.error().code == EEXIST || is_race) {
            // Perhaps it is what an earlier attempt wrote, the reply to which was lost.
            const auto there = head(path);
            if (there && is_ours(*there, metadata, text.size(), *md5)) return there->version;
            if (is_race && there) return fail(EEXIST, path + " is there by now");
            if (is_race && attempt < kAttemptsAtRaces) continue;
        }
        return fail(within_condition(response.error(), condition));
    }
}

Result<Upload> BucketCalls::begin(const std::string& path, const FileMetadata& metadata) {
    auto made = operation(RequestKind::post, path);
    made.query = {{"uploads", ""}};
    made.headers = metadata_headers(metadata);
    if (!metadata.tags.empty()) made.headers.emplace_back("x-amz-tagging", metadata.tags);
    const auto response = client_.run(std::move(made));
    if (!response) return fail(response.error());
    auto id = find_text(response->body, "UploadId");
    if (id.empty()) return fail(EIO, path + ": the reply holds no UploadId");
    return Upload{path, std::move(id)};
}

void BucketCalls::send_part(const Upload& upload, unsigned number, const Slice& slice,
                            std::function<void(Result<UploadPart>)> done) {
    auto made = sending(upload.path, slice);
    if (!made) return done(fail(std::move(made.error())));
    made->headers.emplace_back("Content-Type", kPlain);
    made->query = {{"partNumber", std::to_string(number)}, {"uploadId", upload.id}};
    made->done = [number, size = slice.end - slice.begin,
                  done = std::move(done)](const Result<http::Response>& response) {
        if (!response) return done(fail(response.error()));
        done(UploadPart{number, size, unquoted(response->header("etag"))});
    };
    client_.start(std::move(*made));
}

std::string BucketCalls::copy_source(const std::string& path) const {
    return "/" + target_.bucket + "/" + http::percent_encode(key(path), true);
}

void BucketCalls::copy_part(const Upload& upload, unsigned number, const std::string& from,
                            const std::string& version, std::uint64_t begin, std::uint64_t end,
                            std::function<void(Result<UploadPart>)> done) {
    auto made = operation(RequestKind::put, upload.path);
    made.query = {{"partNumber", std::to_string(number)}, {"uploadId", upload.id}};
    made.headers = {
        {"Content-Type", kPlain},
        {"x-amz-copy-source", copy_source(from)},
        {"x-amz-copy-source-range", "bytes=" + std::to_string(begin) + "-" + std::to_string(end - 1)}};
    if (is_strong_etag(version)) made.headers.emplace_back("x-amz-copy-source-if-match", version);
    made.transfer_time = std::chrono::seconds((end - begin) / kSlowestCopyPerSecond);
    made.stall = kSilenceOfCopy;
    made.done = [=, done = std::move(done)](const Result<http::Response>& response) {
        if (!response) return done(fail(of_copy(response.error())));
        const auto etag = version_of_copy(*response);
        if (etag.empty()) return done(fail(EIO, "the reply to the copy of a part tells no ETag"));
        done(UploadPart{number, end - begin, unquoted(etag)});
    };
    client_.start(std::move(made));
}

Result<std::string> BucketCalls::complete(const Upload& upload, std::span<const UploadPart> parts,
                                          const PutOptions& condition) {
    if (has_condition(condition)) {
        // Servers that know conditions for PUT may ignore them here (Ceph's gateway does): then this is all
        // that tells, but for what happens between the two requests.
        const auto there = head(upload.path);
        const auto code = there ? 0 : there.error().code;
        if (code != 0 && code != ENOENT) return fail(there.error());
        const auto ours = checksum_of_parts(parts);  // of an attempt whose reply was lost
        if (there && ours && unquoted(there->version) == *ours) return there->version;
        if (condition.only_if_absent && there) return fail(EEXIST, upload.path + " is there by now");
        if (!condition.only_if_version.empty() && (!there || there->version != condition.only_if_version))
            return fail(ESTALE, upload.path + (there ? " is another object by now" : " is gone"));
    }
    auto written = writer_.complete(upload, parts, condition);
    if (!written) return fail(std::move(written.error()));
    return std::move(written->version);
}

void BucketCalls::abort(const Upload& upload) {
    auto made = operation(RequestKind::remove, upload.path);
    made.query = {{"uploadId", upload.id}};
    client_.start(std::move(made));
}

Operation BucketCalls::copying(const std::string& from, const Facts& facts, const std::string& to,
                               const std::optional<FileMetadata>& metadata) const {
    auto made = operation(RequestKind::put, to);
    if (metadata) {
        made.headers = metadata_headers(*metadata);
    } else {
        made.headers.emplace_back("Content-Type", kPlain);
    }
    made.headers.emplace_back("x-amz-copy-source", copy_source(from));
    made.headers.emplace_back("x-amz-metadata-directive", metadata ? "REPLACE" : "COPY");
    if (is_strong_etag(facts.version)) made.headers.emplace_back("x-amz-copy-source-if-match", facts.version);
    made.transfer_time = std::chrono::seconds(facts.size / kSlowestCopyPerSecond);
    made.stall = kSilenceOfCopy;
    return made;
}

Result<std::string> BucketCalls::copy(const std::string& from, const Facts& facts, const std::string& to,
                                      const std::optional<FileMetadata>& metadata) {
    if (facts.size > kLargestCopy) return copy_in_parts(from, facts, to, metadata.value_or(facts.metadata));
    const auto response = client_.run(copying(from, facts, to, metadata));
    if (!response) return fail(of_copy(response.error()));
    note_sealing(*response);
    auto version = version_of_copy(*response);
    if (!version.empty()) return version;
    // The copy was made all the same.
    auto made = head(to);
    if (!made) return fail(std::move(made.error()));
    return std::move(made->version);
}

void BucketCalls::copy(const std::string& from, const Facts& facts, const std::string& to,
                       std::function<void(Result<std::string>)> done) {
    if (facts.size > kLargestCopy) {
        // A listing tells no metadata.
        const auto now = head(from);
        return done(now ? copy(from, *now, to, std::optional<FileMetadata>()) : fail(now.error()));
    }
    auto made = copying(from, facts, to, {});
    made.done = [this, to, done = std::move(done)](const Result<http::Response>& response) {
        if (!response) return done(fail(of_copy(response.error())));
        auto version = version_of_copy(*response);
        if (!version.empty()) return done(std::move(version));
        // The copy was made all the same.
        head(to, [done](Result<Facts> copied) {
            done(copied ? Result<std::string>(std::move(copied->version)) : fail(std::move(copied.error())));
        });
    };
    client_.start(std::move(made));
}

Result<std::string> BucketCalls::copy_in_parts(const std::string& from, const Facts& facts,
                                               const std::string& to, const FileMetadata& metadata) {
    const auto part_size = part_size_for(facts.size, kPartOfCopy, writer_.limits());
    if (!part_size) return fail(part_size.error());
    const auto upload = begin(to, metadata);
    if (!upload) return fail(upload.error());
    std::vector<UploadPart> parts((facts.size + *part_size - 1) / *part_size);
    Together together(kPartsAtOnce);
    for (std::size_t i = 0; i < parts.size() && together.begin(); ++i) {
        copy_part(*upload, static_cast<unsigned>(i + 1), from, facts.version, i * *part_size,
                  std::min<std::uint64_t>((i + 1) * *part_size, facts.size),
                  [&together, &part = parts[i]](Result<UploadPart> copied) {
                      if (copied) part = std::move(*copied);
                      together.end(copied ? Result<void>() : fail(copied.error()));
                  });
    }
    auto copied = together.wait();
    Result<std::string> version = copied ? complete(*upload, parts, {}) : fail(std::move(copied.error()));
    if (!version) abort(*upload);
    return version;
}

Result<void> BucketCalls::remove(const std::string& path) {
    Together one(1);
    if (!one.begin()) return one.wait();
    remove(path, [&](Result<void> result) { one.end(std::move(result)); });
    return one.wait();
}

void BucketCalls::remove(const std::string& path, std::function<void(Result<void>)> done) {
    auto made = operation(RequestKind::remove, path);
    made.done = [done = std::move(done)](const Result<http::Response>& response) {
        const bool is_gone = response || response.error().code == ENOENT;
        done(is_gone ? Result<void>() : fail(response.error()));
    };
    client_.start(std::move(made));
}

Result<bool> BucketCalls::remove_version(const std::string& path, const std::string& version) {
    const auto there = head(path);
    if (!there) return there.error().code == ENOENT ? Result<bool>(true) : fail(there.error());
    if (there->version != version) return false;
    for (const bool is_conditional : {is_strong_etag(version), false}) {
        auto made = operation(RequestKind::remove, path);
        if (is_conditional) made.headers.emplace_back("If-Match", version);
        const auto response = client_.run(std::move(made));
        const auto code = response ? 0 : response.error().code;
        if (code == 0 || code == ENOENT) return true;
        if (code == EEXIST) return false;  // 412
        if (!is_conditional || code != EOPNOTSUPP) return fail(response.error());
    }
    return true;
}

}  // namespace tierfs::s3
