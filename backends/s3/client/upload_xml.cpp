#include "backends/s3/client/upload_xml.hpp"

#include <charconv>

#include "backends/http/url.hpp"
#include "backends/s3/client/xml.hpp"
#include "backends/s3/client/xml_tree.hpp"

namespace tierfs::s3 {
namespace {

/// The root of that name.
Result<pugi::xml_node> root_of(const XmlTree& tree, const char* name) {
    if (!tree.problem().empty()) return fail(EIO, "the reply is not XML as it should be: " + tree.problem());
    const auto root = tree.document().child(name);
    if (!root) return fail(EIO, std::string("the reply is no ") + name);
    return root;
}

template <typename Number>
std::optional<Number> number(std::string_view text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

bool is_truncated(const pugi::xml_node& root) {
    return std::string_view(root.child_value("IsTruncated")) == "true";
}

}  // namespace

Result<PartsPage> parse_parts(std::string_view body) {
    const XmlTree tree(body);
    const auto root = root_of(tree, "ListPartsResult");
    if (!root) return fail(root.error());
    PartsPage page;
    for (const auto& node : root->children("Part")) {
        const auto part_number = number<unsigned>(node.child_value("PartNumber"));
        const auto size = number<std::uint64_t>(node.child_value("Size"));
        if (!part_number || *part_number == 0 || !size)
            return fail(EIO, "the reply holds a part without a number or size");
        page.parts.push_back({*part_number, *size, unquoted(node.child_value("ETag"))});
    }
    if (is_truncated(*root)) {
        const auto marker = number<unsigned>(root->child_value("NextPartNumberMarker"));
        if (!marker || *marker == 0) return fail(EIO, "the list of parts is cut and tells no next part");
        page.next_marker = *marker;
    }
    return page;
}

Result<UploadsPage> parse_uploads(std::string_view body) {
    const XmlTree tree(body);
    const auto root = root_of(tree, "ListMultipartUploadsResult");
    if (!root) return fail(root.error());
    const bool encoded = std::string_view(root->child_value("EncodingType")) == "url";
    const auto decode = [&](const char* text) {
        return encoded ? http::percent_decode(text, true) : std::string(text);
    };
    UploadsPage page;
    for (const auto& node : root->children("Upload")) {
        const std::string id = node.child_value("UploadId");
        if (id.empty()) return fail(EIO, "the reply holds an upload without an id");
        page.uploads.push_back({{decode(node.child_value("Key")), id},
                                parse_iso_time(node.child_value("Initiated")).value_or(0)});
    }
    if (is_truncated(*root)) {
        page.next_key = decode(root->child_value("NextKeyMarker"));
        page.next_id = root->child_value("NextUploadIdMarker");
        if (page.next_key.empty()) return fail(EIO, "the list of uploads is cut and tells no next key");
    }
    return page;
}

std::string complete_document(std::span<const UploadPart> parts) {
    std::string text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
    for (const auto& part : parts) {
        // ETags are opaque: what a server puts into one must not become markup.
        std::string etag;
        for (const char c : part.checksum) {
            if (c == '&') {
                etag += "&amp;";
            } else if (c == '<') {
                etag += "&lt;";
            } else {
                etag += c;
            }
        }
        text += "<Part><PartNumber>" + std::to_string(part.number) + "</PartNumber><ETag>\"" + etag +
                "\"</ETag></Part>";
    }
    return text + "</CompleteMultipartUpload>";
}

std::string unquoted(std::string_view etag) {
    if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
    return std::string(etag);
}

}  // namespace tierfs::s3
