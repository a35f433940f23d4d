#include "backends/s3/client/tags_xml.hpp"

#include <algorithm>
#include <cerrno>
#include <pugixml.hpp>
#include <sstream>

#include "backends/http/url.hpp"
#include "backends/s3/client/xml_tree.hpp"

namespace tierfs::s3 {

Result<std::string> parse_tags(std::string_view body) {
    const XmlTree tree(body);  // a tag may be blanks
    const auto root = tree.problem().empty() ? tree.document().child("Tagging") : pugi::xml_node();
    if (!root) return fail(EIO, "the reply is no list of tags");
    std::string tags;
    for (const auto& tag : root.child("TagSet").children("Tag")) {
        if (!tags.empty()) tags += '&';
        tags += http::percent_encode(tag.child_value("Key")) + "=" +
                http::percent_encode(tag.child_value("Value"));
    }
    return tags;
}

std::string tags_document(std::string_view tags) {
    pugi::xml_document document;
    auto root = document.append_child("Tagging");
    root.append_attribute("xmlns") = "http://s3.amazonaws.com/doc/2006-03-01/";
    auto set = root.append_child("TagSet");
    while (!tags.empty()) {
        const auto end = std::min(tags.find('&'), tags.size());
        const auto tag = tags.substr(0, end);
        const auto equals = std::min(tag.find('='), tag.size());
        auto node = set.append_child("Tag");
        const auto add = [&](const char* name, std::string_view text) {
            node.append_child(name)
                .append_child(pugi::node_pcdata)
                .set_value(http::percent_decode(text).c_str());
        };
        add("Key", tag.substr(0, equals));
        add("Value", tag.substr(std::min(equals + 1, tag.size())));
        tags.remove_prefix(std::min(end + 1, tags.size()));
    }
    std::ostringstream text;
    document.save(text, "", pugi::format_raw | pugi::format_no_declaration);
    return text.str();
}

}  // namespace tierfs::s3
