// Tags that others gave an object, which are no part of its headers; see bucket_calls.hpp.
#include "backends/s3/client/base64.hpp"
#include "backends/s3/client/sigv4.hpp"
#include "backends/s3/client/tags_xml.hpp"
#include "backends/s3/readwrite/bucket_calls.hpp"
#include "config/base/hex.hpp"
#include "config/base/log.hpp"

namespace tierfs::s3 {

void BucketCalls::ask_tags(const std::string& path, Facts& facts) {
    if (!facts.has_tags) return;
    auto made = operation(RequestKind::list, path);  // no range, no pinned version
    made.query = {{"tagging", ""}};
    const auto response = client_.run(std::move(made));
    auto tags = response ? parse_tags(response->body) : fail(response.error());
    if (!tags)
        return log::warning("tags of " + path + " cannot be read, and are lost: " + tags.error().message);
    facts.metadata.tags = std::move(*tags);
}

// Some servers (Ceph's gateway) drop tags of what is copied with other metadata, or sent in parts.
void BucketCalls::keep_tags(const std::string& path, const FileMetadata& metadata) {
    if (metadata.tags.empty()) return;
    if (const auto now = head(path); now && now->has_tags) return;
    const auto text = tags_document(metadata.tags);
    auto made = operation(RequestKind::put, path);
    made.query = {{"tagging", ""}};
    made.payload = std::as_bytes(std::span(text));
    made.payload_sha256 = sha256_hex(text);
    if (const auto md5 = md5_hex(made.payload)) {
        const auto raw = from_hex(*md5);
        made.headers.emplace_back("Content-MD5",
                                  to_base64({reinterpret_cast<const char*>(raw.data()), raw.size()}));
    }
    const auto response = client_.run(std::move(made));
    if (!response) log::warning("tags of " + path + " are lost: " + response.error().message);
}

}  // namespace tierfs::s3
