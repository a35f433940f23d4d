#include "backends/s3/client/object_headers.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "backends/origin/writable_origin.hpp"
#include "backends/s3/client/base64.hpp"
#include "backends/s3/client/client.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/hex.hpp"

namespace tierfs::s3 {
namespace {

constexpr std::size_t kKeyBytes = 32, kLongestFile = 4096;
constexpr const char *kCustomer = "x-amz-server-side-encryption-customer-",
                     *kCopiedCustomer = "x-amz-copy-source-server-side-encryption-customer-";

/// Of a query or of headers.
bool has(const std::vector<std::pair<std::string, std::string>>& pairs, std::string_view name) {
    return std::any_of(pairs.begin(), pairs.end(), [&](const auto& one) { return one.first == name; });
}

void append(std::vector<http::Header>& headers, const std::vector<http::Header>& more) {
    headers.insert(headers.end(), more.begin(), more.end());
}

/// 32 bytes, or their base64 with or without the end of a line.
Result<std::string> read_key(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0)
        return fail(system_error(errno, "s3.customer_key: " + path));
    if ((status.st_mode & 077U) != 0)
        return fail(EACCES, "s3.customer_key: others may read " + path + ": chmod 600 " + path);
    std::string text(kLongestFile, '\0');
    const auto got = ::read(file.get(), text.data(), text.size());
    if (got < 0) return fail(system_error(errno, "s3.customer_key: " + path));
    text.resize(static_cast<std::size_t>(got));
    if (text.size() == kKeyBytes) return text;
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    auto key = from_base64(text);
    if (!key || key->size() != kKeyBytes)
        return fail(EINVAL, "s3.customer_key: " + path + " holds no key of 32 bytes, nor its base64");
    return std::move(*key);
}

}  // namespace

Result<ObjectHeaders> ObjectHeaders::from(const Settings& settings, bool encrypted_wire) {
    ObjectHeaders made;
    const auto add = [](std::vector<http::Header>& headers, const std::string& name,
                        const std::string& value) {
        if (!value.empty()) headers.emplace_back(name, value);
    };
    add(made.all_, "x-amz-request-payer", settings.s3_requester_pays ? "requester" : "");
    add(made.all_, "x-amz-expected-bucket-owner", settings.s3_bucket_owner);
    add(made.copies_, "x-amz-source-expected-bucket-owner", settings.s3_bucket_owner);
    add(made.creates_, "x-amz-storage-class", settings.s3_storage_class);
    add(made.creates_, "x-amz-acl", settings.s3_acl);
    add(made.creates_, "x-amz-server-side-encryption",
        settings.s3_encryption == "none" ? "" : settings.s3_encryption);
    add(made.creates_, "x-amz-server-side-encryption-aws-kms-key-id", settings.s3_kms_key);
    if (settings.s3_customer_key.empty()) return made;
    if (!encrypted_wire)
        return fail(EINVAL,
                    "s3.customer_key: the key would go over an unencrypted wire; use an https endpoint");
    const auto key = read_key(settings.s3_customer_key);
    if (!key) return fail(key.error());
    const auto digest = md5_hex(std::as_bytes(std::span(*key)));
    if (!digest) return fail(digest.error());
    const auto raw = from_hex(*digest);
    const std::string md5(reinterpret_cast<const char*>(raw.data()), raw.size());
    for (auto* headers : {&made.holds_, &made.copies_}) {
        const std::string name = headers == &made.holds_ ? kCustomer : kCopiedCustomer;
        add(*headers, name + "algorithm", "AES256");
        add(*headers, name + "key", to_base64(*key));
        add(*headers, name + "key-MD5", to_base64(md5));
    }
    return made;
}

void ObjectHeaders::add_to(const Operation& operation, std::vector<http::Header>& headers) const {
    append(headers, all_);
    const bool puts = operation.kind == RequestKind::put && !has(operation.query, "tagging");
    const bool is_part = has(operation.query, "partNumber");
    const bool begins = operation.kind == RequestKind::post && has(operation.query, "uploads");
    const bool ends = operation.kind == RequestKind::post && has(operation.query, "uploadId");
    const bool reads =
        operation.kind == RequestKind::get || (operation.kind == RequestKind::head && !operation.key.empty());
    if ((puts && !is_part) || begins) append(headers, creates_);
    if (puts || begins || ends || reads) append(headers, holds_);
    if (puts && has(operation.headers, "x-amz-copy-source")) append(headers, copies_);
}

}  // namespace tierfs::s3
