// floor: backends
// The XML of multipart uploads: lists of parts and of uploads. Input: the body.
#include "backends/s3/client/upload_xml.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const auto body = fuzz::text_of(data, size);
    if (const auto page = s3::parse_parts(body)) {
        for (const auto& part : page->parts) fuzz::require(part.number > 0, "parts count from 1");
        const auto document = s3::complete_document(page->parts);
        fuzz::require(document.find("<Part>") != std::string::npos || page->parts.empty(), "parts are named");
    } else {
        fuzz::require(page.error().code == EIO && !page.error().message.empty(), "an error says what it is");
    }
    if (const auto page = s3::parse_uploads(body)) {
        for (const auto& upload : page->uploads)
            fuzz::require(!upload.upload.id.empty(), "uploads have an id");
    } else {
        fuzz::require(page.error().code == EIO && !page.error().message.empty(), "an error says what it is");
    }
    return 0;
}
