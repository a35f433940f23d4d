#include "backends/s3/client/xml_tree.hpp"

#include <algorithm>

namespace tierfs::s3 {
namespace {

/// A page of 1,000 objects with all that S3 says of one has some 30,000.
constexpr std::ptrdiff_t kMostTags = 100'000;

}  // namespace

Mutex& XmlTree::turn() {
    static Mutex mutex;
    return mutex;
}

XmlTree::XmlTree(std::string_view body, unsigned flags) : lock_(turn()) {
    if (std::count(body.begin(), body.end(), '<') > kMostTags) {
        problem_ = "more tags than any page has";
        return;
    }
    const auto parsed = document_.load_buffer(body.data(), body.size(), flags, pugi::encoding_utf8);
    if (!parsed) problem_ = std::string(parsed.description()) + " at byte " + std::to_string(parsed.offset);
    for (const auto& child : document_.children()) {
        // S3 sends none, and keys that were written with its entities would be other keys.
        if (problem_.empty() && child.type() == pugi::node_doctype) problem_ = "it holds a document type";
    }
}

}  // namespace tierfs::s3
