// The tree of an XML reply. Internal to backends/s3/client.
#pragma once

#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "config/base/mutex.hpp"
#include "config/base/result.hpp"

namespace tierfs::s3 {

/// Keys are bytes: a key of blanks is a key, and line ends stay what they are. Entities of a DTD are never expanded; a DTD is seen,
/// so that it can be refused.
inline constexpr unsigned kParseReply =
    (pugi::parse_default | pugi::parse_ws_pcdata_single | pugi::parse_doctype) & ~pugi::parse_eol;

/// There is one at a time in a process: a tree takes many times the bytes of its text, and dozens of pages may come at once. Not
/// thread-safe itself; it belongs to who made it.
class XmlTree {
  public:
    explicit XmlTree(std::string_view body, unsigned flags = kParseReply);
    XmlTree(const XmlTree&) = delete;
    XmlTree& operator=(const XmlTree&) = delete;

    /// Empty, or why there is no tree: it is not XML, has a document type, or more tags than any page has.
    [[nodiscard]] const std::string& problem() const { return problem_; }
    [[nodiscard]] const pugi::xml_document& document() const { return document_; }
    [[nodiscard]] pugi::xml_document& document() { return document_; }

  private:
    static Mutex& turn();

    const MutexLock lock_;
    pugi::xml_document document_;
    std::string problem_;
};

}  // namespace tierfs::s3
