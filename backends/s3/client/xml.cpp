#include "backends/s3/client/xml.hpp"

#include <array>
#include <charconv>
#include <ctime>

#include "backends/http/url.hpp"
#include "backends/s3/client/xml_tree.hpp"

namespace tierfs::s3 {
namespace {

constexpr std::size_t kErrorTextLimit = 500;

std::string bounded(const char* text) {
    std::string copy(text);
    if (copy.size() > kErrorTextLimit) copy.resize(kErrorTextLimit);
    return copy;
}

/// How the keys of one reply are written.
class KeyDecoder {
  public:
    explicit KeyDecoder(const pugi::xml_node& root)
        : encoded_(std::string_view(root.child_value("EncodingType")) == "url") {
        // S3 writes a blank as '+' and a plus as %2B. A server that writes blanks as %20 may leave a plus as
        // it is.
        if (encoded_) plus_is_space_ = !uses_percent_20(root);
    }

    [[nodiscard]] std::string operator()(const char* text) const {
        return encoded_ ? http::percent_decode(text, plus_is_space_) : std::string(text);
    }

  private:
    static bool uses_percent_20(const pugi::xml_node& root) {
        for (const auto& child : root.children()) {
            for (const char* name : {"Key", "Prefix"}) {
                if (std::string_view(child.child_value(name)).find("%20") != std::string_view::npos)
                    return true;
            }
        }
        return false;
    }

    bool encoded_, plus_is_space_ = false;
};

Result<ListedObject> parse_object(const pugi::xml_node& node, const KeyDecoder& decode) {
    if (!node.child("Key")) return fail(EIO, "the listing holds an object without a key");
    ListedObject object;
    object.key = decode(node.child_value("Key"));
    const std::string_view size = node.child_value("Size");
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), object.size);
    if (error != std::errc{} || end != size.data() + size.size() ||
        object.size > static_cast<std::uint64_t>(INT64_MAX))
        return fail(EIO, "the listing holds an object whose size is no number");
    object.mtime_s = parse_iso_time(node.child_value("LastModified")).value_or(0);
    if (const std::string_view etag = node.child_value("ETag"); etag.size() <= kLongestEtag)
        object.etag = etag;
    object.storage_class = node.child_value("StorageClass");
    const auto restore = node.child("RestoreStatus");
    object.restored = restore && std::string_view(restore.child_value("IsRestoreInProgress")) == "false";
    return object;
}

ErrorBody error_of(const pugi::xml_document& document) {
    auto error = document.child("Error");
    if (!error) error = document.child("ErrorResponse").child("Error");  // STS
    if (!error) return {};
    return {bounded(error.child_value("Code")), bounded(error.child_value("Message")),
            bounded(error.child_value("Region")), bounded(error.child_value("Endpoint"))};
}

}  // namespace

std::optional<std::int64_t> parse_iso_time(std::string_view text) {
    std::tm parts{};
    const std::string copy(text);
    const char* end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    if (end == nullptr || (*end != '.' && *end != 'Z' && *end != '+' && *end != '\0')) return std::nullopt;
    return ::timegm(&parts);
}

Result<Listing> parse_listing(std::string_view body) {
    const XmlTree tree(body);
    if (!tree.problem().empty())
        return fail(EIO, "the listing is not XML as it should be: " + tree.problem());
    const auto root = tree.document().child("ListBucketResult");
    if (!root) {
        const auto error = error_of(tree.document());
        return fail(EIO, error.code.empty() ? "the reply is no listing of a bucket"
                                            : "the reply is an error: " + error.code + " " + error.message);
    }
    const KeyDecoder decode(root);
    Listing listing;
    listing.text_bytes = body.size();
    for (const auto& child : root.children()) {
        const std::string_view name = child.name();
        if (name == "Contents") {
            auto object = parse_object(child, decode);
            if (!object) return fail(std::move(object.error()));
            listing.objects.push_back(std::move(*object));
        } else if (name == "CommonPrefixes") {
            for (const auto& prefix : child.children("Prefix"))
                listing.prefixes.push_back(decode(prefix.child_value()));
        }
    }
    if (std::string_view(root.child_value("IsTruncated")) == "true") {
        listing.next_token = root.child_value("NextContinuationToken");
        if (listing.next_token.empty())
            return fail(EIO,
                        "the listing is cut and tells no token to continue with: "
                        "the server does not know ListObjectsV2");
    }
    return listing;
}

ErrorBody parse_error(std::string_view body) {
    const XmlTree tree(body);
    return tree.problem().empty() ? error_of(tree.document()) : ErrorBody{};
}

std::string find_text(std::string_view body, const char* element) {
    const XmlTree tree(body);
    if (!tree.problem().empty()) return {};
    const auto found = tree.document().find_node(
        [&](const pugi::xml_node& node) { return std::string_view(node.name()) == element; });
    return found.child_value();
}

}  // namespace tierfs::s3
