#include "backends/s3/client/writer.hpp"

#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <thread>

#include "backends/s3/client/base64.hpp"
#include "backends/s3/client/condition.hpp"
#include "backends/s3/client/head.hpp"
#include "backends/s3/client/sigv4.hpp"
#include "backends/s3/client/upload_xml.hpp"
#include "config/base/hex.hpp"
#include "config/base/units.hpp"

namespace tierfs::s3 {
namespace {

constexpr std::uint64_t kSlowestBytesPerSecond = 256U << 10;
// A server that has all of a body may sync disks before it answers; of 10,000 parts it makes one object.
constexpr std::chrono::milliseconds kSilenceAfterBody{60000}, kSilenceOfComplete{120000};
constexpr std::chrono::milliseconds kTimeOfComplete{600000};
constexpr unsigned kAttemptsAtComplete = 5;
constexpr std::size_t kMostParts = 10000;
constexpr std::size_t kMostPages = 10000;  // of a listing that never ends

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The names and forms of s3fs, so that it shows the files as they were.
void add_attributes(Operation& operation, const PutOptions& options) {
    if (!options.attributes) return;
    const auto& file = *options.attributes;
    constexpr std::int64_t kNanoseconds = 1'000'000'000;
    std::int64_t seconds = file.mtime_ns / kNanoseconds, rest = file.mtime_ns % kNanoseconds;
    if (rest < 0) {
        --seconds;
        rest += kNanoseconds;
    }
    std::array<char, 16> fraction{};
    std::snprintf(fraction.data(), fraction.size(), ".%09lld", static_cast<long long>(rest));
    operation.headers.emplace_back("x-amz-meta-mode", std::to_string(S_IFREG | (file.mode & 07777U)));
    operation.headers.emplace_back("x-amz-meta-uid", std::to_string(file.uid));
    operation.headers.emplace_back("x-amz-meta-gid", std::to_string(file.gid));
    operation.headers.emplace_back("x-amz-meta-mtime", std::to_string(seconds) + fraction.data());
}

/// Whether a failed completion may work when it is asked for again.
bool passes(std::string_view code) {
    return code == "InternalError" || code == "SlowDown" || code == "ServiceUnavailable" ||
           code == "RequestTimeout" || code == "OperationAborted";
}

}  // namespace

UploadLimits Writer::limits() const {
    return {5 * kMiB, 5 * kGiB, 5 * kGiB * 1024, static_cast<unsigned>(kMostParts)};
}

std::string Writer::describe(const std::string& path) const {
    return "s3://" + target_.bucket + "/" + http::percent_encode(target_.prefix + path, true) + " at " +
           target_.endpoint.base();
}

Operation Writer::operation(RequestKind kind, const std::string& path) const {
    Operation operation;
    operation.kind = kind;
    operation.key = target_.prefix + path;
    if (deadline_ != kForever) operation.deadline = http::Clock::now() + deadline_;
    return operation;
}

Result<Operation> Writer::sending(RequestKind kind, const std::string& path, std::span<const std::byte> bytes,
                                  std::string checksum_md5) const {
    if (checksum_md5.empty()) {
        auto digest = md5_hex(bytes);
        if (!digest) return fail(digest.error());
        checksum_md5 = std::move(*digest);
    }
    auto made = operation(kind, path);
    made.payload = bytes;
    made.payload_sha256 = target_.endpoint.tls ? "UNSIGNED-PAYLOAD" : sha256_hex(as_text(bytes));
    made.headers.emplace_back("Content-MD5", to_base64(as_text(from_hex(checksum_md5))));
    made.headers.emplace_back("Content-Type", "application/octet-stream");
    made.transfer_time = std::chrono::seconds(bytes.size() / kSlowestBytesPerSecond);
    made.stall = kSilenceAfterBody;
    return made;
}

Result<Written> Writer::put(const std::string& path, std::span<const std::byte> bytes,
                            const PutOptions& options, const std::string& checksum_md5) {
    auto made = sending(RequestKind::put, path, bytes, checksum_md5);
    if (!made) return fail(made.error());
    add_attributes(*made, options);
    add_condition(*made, options);
    const auto response = client_.run(std::move(*made));
    if (!response) return fail(within_condition(response.error(), options));
    const std::string etag(response->header("etag"));
    return Written{etag, unquoted(etag), bytes.size()};
}

Result<Upload> Writer::begin(const std::string& path, const PutOptions& options) {
    auto made = operation(RequestKind::post, path);
    made.query = {{"uploads", ""}};
    made.headers.emplace_back("Content-Type", "application/octet-stream");
    add_attributes(made, options);
    const auto response = client_.run(std::move(made));
    if (!response) return fail(response.error());
    auto id = find_text(response->body, "UploadId");
    if (id.empty()) return fail(EIO, describe(path) + ": the reply holds no UploadId");
    return Upload{path, std::move(id)};
}

Result<UploadPart> Writer::part(const Upload& upload, unsigned number, std::uint64_t /*offset*/,
                                std::span<const std::byte> bytes, const std::string& checksum_md5) {
    auto made = sending(RequestKind::put, upload.path, bytes, checksum_md5);
    if (!made) return fail(made.error());
    made->query = {{"partNumber", std::to_string(number)}, {"uploadId", upload.id}};
    const auto response = client_.run(std::move(*made));
    if (!response) return fail(response.error());
    return UploadPart{number, bytes.size(), unquoted(response->header("etag"))};
}

Result<std::vector<UploadPart>> Writer::parts(const Upload& upload, std::uint64_t /*part_size*/) {
    std::vector<UploadPart> all;
    unsigned marker = 0;
    for (std::size_t pages = 0; pages < kMostPages; ++pages) {
        auto made = operation(RequestKind::list, upload.path);
        made.query = {{"uploadId", upload.id}, {"max-parts", "1000"}};
        if (marker != 0) made.query.emplace_back("part-number-marker", std::to_string(marker));
        const auto response = client_.run(std::move(made));
        if (!response) return fail(response.error());
        auto page = parse_parts(response->body);
        if (!page) return fail(page.error().within(describe(upload.path)));
        for (auto& part : page->parts) all.push_back(std::move(part));
        if (page->next_marker == 0) return all;
        if (page->next_marker <= marker || all.size() > kMostParts)
            return fail(EIO, describe(upload.path) + ": the list of parts repeats itself");
        marker = page->next_marker;
    }
    return fail(EIO, describe(upload.path) + ": the list of parts does not end");
}

/// The ETag that the reply tells; empty: it tells none.
Result<std::string> Writer::complete_once(const Upload& upload, std::span<const std::byte> document,
                                          const PutOptions& options) {
    auto made = sending(RequestKind::post, upload.path, document, {});
    if (!made) return fail(made.error());
    made->query = {{"uploadId", upload.id}};
    made->transfer_time = kTimeOfComplete;
    made->stall = kSilenceOfComplete;
    add_condition(*made, options);
    const auto response = client_.run(std::move(*made));
    if (!response) return fail(within_condition(response.error(), options));
    const auto error = parse_error(response->body);
    if (error.code.empty()) return find_text(response->body, "ETag");
    const auto text = describe(upload.path) + ": " + error.code + ": " + error.message;
    if (error.code == "PreconditionFailed") return fail(within_condition({EEXIST, text}, options));
    if (error.code == "NoSuchUpload") return fail(ENOENT, text);
    return fail(passes(error.code) ? EAGAIN : EIO, text);
}

Result<Written> Writer::complete(const Upload& upload, std::span<const UploadPart> parts,
                                 const PutOptions& options) {
    const auto document = complete_document(parts);
    std::uint64_t size = 0;
    for (const auto& part : parts) size += part.size;
    Result<std::string> done;
    for (unsigned attempt = 0; attempt < kAttemptsAtComplete; ++attempt) {
        if (attempt != 0) std::this_thread::sleep_for(std::chrono::milliseconds(200U << attempt));
        done = complete_once(upload, std::as_bytes(std::span(document)), options);
        if (done || done.error().code != EAGAIN) break;
    }
    if (!done && done.error().code == EAGAIN) done = fail(EIO, done.error().message);
    // The upload is gone or the object is another one: perhaps by an attempt whose reply was lost.
    const auto code = done ? 0 : done.error().code;
    if (code != 0 && code != ENOENT && code != EEXIST && code != ESTALE) return fail(done.error());
    const auto there = done && !done->empty() ? Result<Attributes>() : stat_file(upload.path);
    if (!done) {
        const auto expected = checksum_of_parts(parts);
        const bool ours = there && expected && there->size == size && unquoted(there->version) == *expected;
        const bool is_as_demanded = there && there->version == options.only_if_version;
        if (!ours) return fail(is_as_demanded ? ENOENT : code, done.error().message);
    }
    // A version is that of the very request that made it, whatever is there by now.
    if (done && !done->empty()) {
        auto version = make_version(*done, 0, 0);
        auto checksum = unquoted(version);
        return Written{std::move(version), std::move(checksum), size};
    }
    if (!there) return fail(there.error());
    const auto made = checksum_of_parts(parts);
    if (is_checksum(unquoted(there->version)) && made && unquoted(there->version) != *made)
        return fail(ESTALE, describe(upload.path) + ": another object took its place at once");
    if (there->size != size)
        return fail(EIO, describe(upload.path) + ": the object has " + std::to_string(there->size) +
                             " bytes instead of " + std::to_string(size));
    return Written{there->version, unquoted(there->version), size};
}

Result<void> Writer::abort(const Upload& upload) {
    auto made = operation(RequestKind::remove, upload.path);
    made.query = {{"uploadId", upload.id}};
    const auto response = client_.run(std::move(made));
    if (!response && response.error().code != ENOENT) return fail(response.error());
    return {};
}

Result<std::vector<PendingUpload>> Writer::pending(const std::string& path) {
    std::vector<PendingUpload> found;
    const auto key = target_.prefix + path;
    std::string next_key, next_id;
    for (std::size_t pages = 0; pages < kMostPages; ++pages) {
        auto made = operation(RequestKind::list, "");
        made.key.clear();
        made.query = {{"uploads", ""}, {"prefix", key}, {"encoding-type", "url"}};
        if (!next_key.empty()) made.query.emplace_back("key-marker", next_key);
        if (!next_id.empty()) made.query.emplace_back("upload-id-marker", next_id);
        const auto response = client_.run(std::move(made));
        if (!response) return fail(response.error());
        auto page = parse_uploads(response->body);
        if (!page) return fail(page.error().within(describe(path)));
        for (auto& upload : page->uploads) {
            if (upload.upload.path != key) continue;
            upload.upload.path = path;
            found.push_back(std::move(upload));
        }
        if (page->next_key.empty()) return found;
        if (page->next_key == next_key && page->next_id == next_id)
            return fail(EIO, describe(path) + ": the list of uploads repeats itself");
        next_key = std::move(page->next_key);
        next_id = std::move(page->next_id);
    }
    return fail(EIO, describe(path) + ": the list of uploads does not end");
}

Result<Attributes> Writer::stat_file(const std::string& path) {
    const auto response = client_.run(operation(RequestKind::head, path));
    if (!response) return fail(response.error());
    return attributes_of_head(*response, ownership_);
}

Result<std::string> Writer::checksum(const std::string& path, std::uint64_t /*part_size*/) {
    const auto there = stat_file(path);
    if (!there) return fail(there.error());
    return unquoted(there->version);
}

Result<void> Writer::remove(const std::string& path) {
    const auto response = client_.run(operation(RequestKind::remove, path));
    if (!response && response.error().code != ENOENT) return fail(response.error());
    return {};
}

}  // namespace tierfs::s3
