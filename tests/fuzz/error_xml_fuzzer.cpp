// floor: backends
// What S3 and STS answer errors with, times in XML, and tags of an object. Input: the body.
#include <algorithm>

#include "backends/s3/client/tags_xml.hpp"
#include "backends/s3/client/xml.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const auto body = fuzz::text_of(data, size);
    const auto error = s3::parse_error(body);
    for (const auto& part : {error.code, error.message, error.region, error.endpoint}) {
        fuzz::require(part.size() <= 500, "what is shown of a reply is short");
    }
    const auto text = s3::find_text(body, "Expiration");
    fuzz::require(text.size() <= size, "text comes from the body");
    for (const auto time : {s3::parse_iso_time(body), s3::parse_iso_time(text)}) {
        // strptime(3) reads four digits of a year.
        fuzz::require(!time || (*time > -62'200'000'000 && *time < 253'500'000'000),
                      "a time is in years 0 to 9999");
    }
    if (const auto tags = s3::parse_tags(body); tags && !tags->empty()) {
        const auto again = s3::parse_tags(s3::tags_document(*tags));
        fuzz::require(again && std::count(again->begin(), again->end(), '&') ==
                                   std::count(tags->begin(), tags->end(), '&'),
                      "tags survive the way to the server and back");
    }
    return 0;
}
