#include "tests/unit/backends/s3/client/fake_bucket.hpp"

#include <openssl/evp.h>

#include <regex>

#include "backends/http/url.hpp"
#include "backends/origin/writable_origin.hpp"
#include "config/base/hex.hpp"

namespace tierfs::test {
namespace {

std::string md5(const std::string& text) {
    return md5_hex(std::as_bytes(std::span(text))).value();
}

Reply refuse(int status, const std::string& code) {
    return {status, {}, "<Error><Code>" + code + "</Code><Message>said so</Message></Error>"};
}

/// Content-MD5 as it must be for this body.
std::string base64_md5(const std::string& text) {
    const auto digest = from_hex(md5(text));
    std::string out(32, '\0');
    const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(digest.data()),
                                     static_cast<int>(digest.size()));
    out.resize(static_cast<std::size_t>(size));
    return out;
}

bool body_is_whole(const ReceivedRequest& request) {
    return request.header("content-md5") == base64_md5(request.body);
}

std::map<std::string, std::string> metadata(const ReceivedRequest& request) {
    std::map<std::string, std::string> kept;
    for (const auto& [name, value] : request.headers) {
        if (name.starts_with("x-amz-meta-") || name == "content-type") kept[name] = value;
    }
    return kept;
}

}  // namespace

void FakeBucket::put(const std::string& key, const std::string& body) {
    const MutexLock lock(mutex_);
    objects_[key] = {body, '"' + md5(body) + '"', {}};
}

Reply FakeBucket::serve(const ReceivedRequest& request) {
    std::shared_ptr<Fault> fault;
    {
        const MutexLock lock(mutex_);
        fault = fault_;
    }
    if (fault) {
        if (auto reply = (*fault)(request)) return *reply;
    }
    const auto question = request.target.find('?');
    const auto path = http::percent_decode(request.target.substr(0, question));
    Query query;
    if (question != std::string::npos) {
        std::string rest = request.target.substr(question + 1);
        while (!rest.empty()) {
            const auto end = std::min(rest.find('&'), rest.size());
            const auto pair = rest.substr(0, end);
            const auto equals = std::min(pair.find('='), pair.size());
            query[http::percent_decode(pair.substr(0, equals))] =
                equals < pair.size() ? http::percent_decode(pair.substr(equals + 1)) : "";
            rest.erase(0, end + 1);
        }
    }
    if (!path.starts_with("/bkt")) return refuse(404, "NoSuchBucket");
    const auto key = path.size() > 5 ? path.substr(5) : "";
    const MutexLock lock(mutex_);
    if (request.method == "PUT")
        return query.contains("uploadId") ? put_part(request, query) : put_object(request, key);
    if (request.method == "POST") return post(request, key, query);
    if (request.method == "DELETE") return remove(key, query);
    if (query.contains("uploads")) return list_uploads(query);
    if (query.contains("list-type")) return list(query);
    if (query.contains("uploadId")) {
        const auto found = uploads_.find(query["uploadId"]);
        return found == uploads_.end() ? refuse(404, "NoSuchUpload") : list_parts(found->second, query);
    }
    return get(request, key);
}

Reply FakeBucket::put_object(const ReceivedRequest& request, const std::string& key) {
    if (!body_is_whole(request)) return refuse(400, "BadDigest");
    const auto there = objects_.find(key);
    if (request.header("if-none-match") == "*" && there != objects_.end())
        return refuse(412, "PreconditionFailed");
    const auto wanted = request.header("if-match");
    if (!wanted.empty() && (there == objects_.end() || there->second.etag != wanted))
        return refuse(412, "PreconditionFailed");
    objects_[key] = {request.body, '"' + md5(request.body) + '"', metadata(request)};
    return {200, {{"ETag", objects_[key].etag}}, ""};
}

Reply FakeBucket::put_part(const ReceivedRequest& request, Query& query) {
    const auto found = uploads_.find(query["uploadId"]);
    if (found == uploads_.end()) return refuse(404, "NoSuchUpload");
    if (!body_is_whole(request)) return refuse(400, "BadDigest");
    ++parts_received_;
    found->second.parts[static_cast<unsigned>(std::stoul(query["partNumber"]))] = request.body;
    return {200, {{"ETag", '"' + md5(request.body) + '"'}}, ""};
}

Reply FakeBucket::post(const ReceivedRequest& request, const std::string& key, Query& query) {
    if (query.contains("uploads")) {
        const auto id = "id/+" + std::to_string(++next_id_);
        uploads_[id] = {key, {}, metadata(request)};
        return {
            200,
            {},
            "<InitiateMultipartUploadResult><UploadId>" + id + "</UploadId></InitiateMultipartUploadResult>"};
    }
    const auto found = uploads_.find(query["uploadId"]);
    if (found == uploads_.end()) return refuse(404, "NoSuchUpload");
    return complete(request, found->second, found->first);
}

Reply FakeBucket::complete(const ReceivedRequest& request, Upload& upload, const std::string& id) {
    if (!body_is_whole(request)) return refuse(400, "BadDigest");
    const auto key = upload.key;
    if (request.header("if-none-match") == "*" && objects_.contains(key))
        return refuse(412, "PreconditionFailed");
    const auto wanted = request.header("if-match");
    if (!wanted.empty() && (!objects_.contains(key) || objects_[key].etag != wanted))
        return refuse(412, "PreconditionFailed");
    static const std::regex kPart(R"re(<Part><PartNumber>(\d+)</PartNumber><ETag>"([^"]*)"</ETag></Part>)re");
    std::vector<UploadPart> parts;
    std::string body;
    for (auto it = std::sregex_iterator(request.body.begin(), request.body.end(), kPart);
         it != std::sregex_iterator(); ++it) {
        const auto number = static_cast<unsigned>(std::stoul((*it)[1].str()));
        const auto part = upload.parts.find(number);
        if (part == upload.parts.end() || md5(part->second) != (*it)[2].str())
            return refuse(400, "InvalidPart");
        parts.push_back({number, part->second.size(), (*it)[2].str()});
        body += part->second;
    }
    if (parts.empty()) return refuse(400, "MalformedXML");
    objects_[key] = {body, '"' + checksum_of_parts(parts).value() + '"', upload.headers};
    uploads_.erase(id);
    // As Ceph's gateway does: the ETag is empty.
    return {200, {}, "<CompleteMultipartUploadResult><ETag></ETag></CompleteMultipartUploadResult>"};
}

Reply FakeBucket::list_parts(const Upload& upload, Query& query) {
    const auto marker = query.contains("part-number-marker") ? std::stoul(query["part-number-marker"]) : 0;
    constexpr unsigned kPage = 2;  // so that pages are followed
    std::string text;
    unsigned count = 0;
    bool more = false;
    unsigned last = 0;
    for (const auto& [number, body] : upload.parts) {
        if (number <= marker) continue;
        more = count == kPage;
        if (more) break;
        ++count;
        last = number;
        text += "<Part><PartNumber>" + std::to_string(number) + "</PartNumber><Size>" +
                std::to_string(body.size()) + "</Size><ETag>&quot;" + md5(body) + "&quot;</ETag></Part>";
    }
    text += "<IsTruncated>" + std::string(more ? "true" : "false") + "</IsTruncated>";
    if (more) text += "<NextPartNumberMarker>" + std::to_string(last) + "</NextPartNumberMarker>";
    return {200, {}, "<ListPartsResult>" + text + "</ListPartsResult>"};
}

Reply FakeBucket::list_uploads(Query& query) {
    std::string text = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>";
    for (const auto& [id, upload] : uploads_) {
        if (!upload.key.starts_with(query["prefix"])) continue;
        text += "<Upload><Key>" + http::percent_encode(upload.key) + "</Key><UploadId>" + id +
                "</UploadId><Initiated>2100-01-01T00:00:00.000Z</Initiated></Upload>";
    }
    return {200, {}, "<ListMultipartUploadsResult>" + text + "</ListMultipartUploadsResult>"};
}

Reply FakeBucket::list(Query& query) {
    std::string text = "<EncodingType>url</EncodingType>";
    for (const auto& [key, object] : objects_) {
        if (!key.starts_with(query["prefix"])) continue;
        const auto rest = key.substr(query["prefix"].size());
        const auto slash = rest.find('/');
        if (slash != std::string::npos) {
            const auto prefix = http::percent_encode(query["prefix"] + rest.substr(0, slash + 1));
            const auto line = "<CommonPrefixes><Prefix>" + prefix + "</Prefix></CommonPrefixes>";
            if (text.find(line) == std::string::npos) text += line;
            continue;
        }
        text += "<Contents><Key>" + http::percent_encode(key) +
                "</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>" + object.etag +
                "</ETag><Size>" + std::to_string(object.body.size()) + "</Size></Contents>";
    }
    return {200, {}, "<ListBucketResult>" + text + "</ListBucketResult>"};
}

Reply FakeBucket::get(const ReceivedRequest& request, const std::string& key) {
    const auto found = objects_.find(key);
    if (found == objects_.end()) return refuse(404, "NoSuchKey");
    const auto& [body, etag, headers] = found->second;
    if (request.method == "HEAD")
        return {200, {{"ETag", etag}, {"Content-Length", std::to_string(body.size())}}, ""};
    if (const auto wanted = request.header("if-match"); !wanted.empty() && wanted != etag)
        return refuse(412, "PreconditionFailed");
    const auto range = request.header("range");
    const auto dash = range.find('-');
    const auto first = std::stoul(range.substr(6)), last = std::stoul(range.substr(dash + 1));
    return {206,
            {{"ETag", etag},
             {"Content-Range", "bytes " + std::to_string(first) + "-" + std::to_string(last) + "/" +
                                   std::to_string(body.size())}},
            body.substr(first, last - first + 1)};
}

Reply FakeBucket::remove(const std::string& key, Query& query) {
    if (!query.contains("uploadId")) {
        objects_.erase(key);
        return {204, {}, ""};
    }
    return uploads_.erase(query["uploadId"]) > 0 ? Reply{204, {}, ""} : refuse(404, "NoSuchUpload");
}

}  // namespace tierfs::test
